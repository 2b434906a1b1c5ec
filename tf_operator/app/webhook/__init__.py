"""The conversion webhook: the API server asks it for an object in another version than the stored one."""
