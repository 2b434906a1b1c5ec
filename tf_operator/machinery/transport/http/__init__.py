"""HTTP/1.1 to one apiserver: where requests go (``route``), on which connection (``pool``), what is said (``wire``)."""
