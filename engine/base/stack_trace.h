// Stack traces of a process that is about to end: for failed checks and, once a program installs the handler, for fatal
// signals.
#pragma once

namespace rivulet {

// Writes the calling thread's stack to the file descriptor, innermost call first, without this function and the `skip`
// calls before it:
//
//     @ 0x55d0c2a1f2b4  rivulet::Lower()
//
// Names come from the symbol tables of the program and its libraries, without arguments; a stripped one has addresses
// only. Allocates nothing; may be called from a signal handler.
void PrintStackTrace(int file_descriptor, int skip = 0);

// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT print "fatal: signal SIGSEGV (address 0x10)" and the stack of
// the thread that got it to stderr, and end the process as before, a core file included. Called once, by main().
void InstallFatalSignalHandler();

}  // namespace rivulet
