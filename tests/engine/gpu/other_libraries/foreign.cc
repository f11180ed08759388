// A library that has no back end.
extern "C" int something_else() { return 0; }
