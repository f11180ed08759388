// A subcommand of `rivulet`, declared as data: its name, arguments, an example and a function that runs it. Only
// cli/program/application.cc knows the library that parses the command line (its header alone costs seconds to
// compile).
//
//   namespace {
//   struct Options { std::string file; bool json = false; };
//   Status Inspect(const Options& options);
//   const RegisterCommand kData(60, [] {
//     Command data{.name = "data", .summary = "Import, generate, inspect and check data sets."};
//     auto options = std::make_shared<Options>();  // lives as long as `run`
//     Command inspect{.name = "inspect", .summary = "…", .example = "rivulet data inspect train.tfrecord"};
//     inspect.Positional("FILE", &options->file, "a TFRecord file")
//         .Flag("--json", &options->json, "print one JSON object");
//     inspect.run = [options] { return Inspect(*options); };
//     data.subcommands.push_back(std::move(inspect));
//     return data;
//   });
//   }  // namespace
//
// Exit codes: 0 when `run` returns OK; 2 for a usage error (UsageError, AsUsageError, or anything the parser refuses);
// 1 for any other error. An error is printed as one line on stderr, "rivulet: MESSAGE"; an expression that explains it
// follows on indented lines. Results go to stdout.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/shown_text.h"
#include "engine/base/status.h"
#include "engine/base/usage_error.h"

namespace rivulet {

// The permitted values of an integer option; others are usage errors that give the range.
struct IntRange {
  int64_t min = 1;
  int64_t max = INT64_MAX;
};

// One argument and the variable it sets. The variable keeps its value when the argument is not given.
struct Argument {
  using Target = std::variant<bool*, int*, std::string*, std::optional<int64_t>*, std::vector<std::string>*>;
  std::string name;        // "--rounds", or "SCENARIO.toml" for a positional
  std::string value_name;  // "N"; "" for a flag
  Target target;           // int*: a flag that counts its occurrences
  std::string help;
  bool required = false;
  IntRange range = {};
  std::string formerly = {};  // of a flag: a former name, which is accepted and not shown
};

struct Command {
  std::string name;
  std::string summary;  // one line, ends with a full stop
  std::string example;  // one or more command lines shown by --help; every runnable command has one
  std::vector<Argument> arguments = {};
  std::function<Status()> run = {};  // empty when there are only subcommands
  std::vector<Command> subcommands = {};
  bool hidden = false;  // absent from help, pages and completion: for scripts that this program writes

  // A required positional. A vector takes all that remain (at least one).
  Command& Positional(std::string value_name, std::string* target, std::string help);
  Command& Positional(std::string value_name, std::vector<std::string>* target, std::string help);
  // A positional that may be left out.
  Command& OptionalPositional(std::string value_name, std::string* target, std::string help);
  Command& Flag(std::string flag, bool* target, std::string help);
  Command& CountedFlag(std::string flag, int* target, std::string help);
  Command& Option(std::string flag, std::string value_name, std::string* target, std::string help);
  Command& Option(std::string flag, std::string value_name, std::optional<int64_t>* target, std::string help,
                  IntRange range = {});
  Command& Required(std::string flag, std::string value_name, std::string* target, std::string help);
  Command& Required(std::string flag, std::string value_name, std::optional<int64_t>* target, std::string help,
                    IntRange range = {});
  // Adds a former name of the last argument, a flag.
  Command& Formerly(std::string flag);
  // May be given several times, one value each.
  Command& Repeated(std::string flag, std::string value_name, std::vector<std::string>* target, std::string help);
};

// Adds a subcommand at start-up; --help lists them by `order`, then name.
struct RegisterCommand {
  RegisterCommand(int order, Command (*make)());
};
std::vector<Command> RegisteredCommands();

}  // namespace rivulet
