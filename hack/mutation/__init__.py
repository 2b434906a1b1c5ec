"""Defects that a program makes: one small change of the code each, of which the tests have to notice nearly all."""
