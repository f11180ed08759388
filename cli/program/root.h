// The whole command line as data, shared by the parser (cli/program/application.cc), the manual and the completion
// (cli/manual/).
#pragma once

#include "cli/command.h"

namespace rivulet {

// Options that every command takes, anywhere on the command line.
struct CommonOption {
  const char* name;
  const char* value_name;
  const char* help;
};
inline constexpr CommonOption kVlogOption = {"--vlog", "MODULE=LEVEL,…",
                                             "print verbose logs of these source files on stderr: compile=2,pass*=1"};
inline constexpr CommonOption kOpLibraryOption = {"--op-library", "FILE.so",
                                                  "load this shared library of ops; repeatable"};
inline constexpr CommonOption kAlgorithmLibraryOption = {"--algorithm-library", "FILE.so",
                                                         "load this shared library of algorithms; repeatable"};
inline constexpr CommonOption kQuietOption = {"--quiet", "", "print results and errors only, no progress"};
inline constexpr CommonOption kProgressOption = {
    "--progress", "KIND",
    "print progress on stderr as KIND: auto, a bar on a terminal and else lines, or json, one object a line [auto]"};
inline constexpr CommonOption kHelpOption = {"--help", "", "Print this help."};
// The options of the program that begins `path`: rivulet-client loads no code.
std::vector<CommonOption> CommonOptionsOf(std::string_view path);

// Arguments of the program itself.
struct RootArguments {
  bool version = false;
  std::vector<std::string> help_of;  // `rivulet help runs show`
};
// `rivulet` with all its subcommands; `arguments` must outlive it. Neither it nor its subcommand `help` has a function:
// the parser supplies it, because it prints the help.
Command RootCommand(RootArguments* arguments);
inline constexpr char kHelpCommand[] = "help";
// `rivulet-client`: `rivulet client` (cli/run/client_command.h) under its own name. Its one subcommand makes a site's
// key and request (cli/ca/request.cc).
Command ClientRoot(RootArguments* arguments);
inline constexpr char kClientProgram[] = "rivulet-client";
// "rivulet 0.2.0" on stdout.
void PrintVersion(std::string_view program);

inline bool IsPositional(const Argument& argument) { return argument.name[0] != '-'; }
// Whether a value follows: for a positional, and for an option that is no flag.
bool TakesValue(const Argument& argument);
inline bool TakesSeveral(const Argument& argument) {
  return std::holds_alternative<std::vector<std::string>*>(argument.target);
}
// The subcommands without hidden ones.
std::vector<const Command*> ShownSubcommands(const Command& command);
// The text after "Usage": "rivulet simulate SCENARIO.toml [OPTIONS]".
std::string UsageOf(const Command& command, std::string_view path);

}  // namespace rivulet
