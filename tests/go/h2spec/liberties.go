package h2spec

// liberties are the cases that a server may fail, by section and name, and why it does.
var liberties = map[string]string{}
