// The only file that includes CLI11.
#include "cli/program/application.h"

#include <google/protobuf/stubs/logging.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <system_error>

#include "cli/program/early_exit.h"
#include "cli/terminal.h"
#include "engine/base/missing_memory.h"
#include "engine/base/nearest.h"
#include "engine/base/stack_trace.h"
#include "engine/base/standard_error.h"
#include "engine/base/vlog.h"
#include "engine/kernels/cpu/vector/cpu_targets.h"

namespace rivulet {
namespace {

// The prefix of errors; set before this program's own code can fail.
const char* program_name = "rivulet";

struct CommonOptions {
  std::string vlog;
  LibraryPaths libraries;
  bool takes_libraries = false;
  bool quiet = false;
  std::string progress;
};

// A Command in the parser, with the texts of its arguments until they are checked.
struct Parsed {
  const Application* application = nullptr;
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  std::string path;  // "rivulet data import"
  std::map<const Argument*, CLI::Option*> options;
  std::map<const Argument*, std::string> text;
  std::vector<std::unique_ptr<Parsed>> children;
};

// "Usage: rivulet simulate SCENARIO.toml [OPTIONS]".
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(const Parsed& parsed) : parsed_(parsed) {}
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: " + UsageOf(*parsed_.command, parsed_.path) + "\n";
  }
  // The parser pads its columns by bytes; a multi-byte character needs additional blanks.
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string line = CLI::Formatter::make_option(option, positional);
    const std::string label = make_option_name(option, positional) + make_option_opts(option);
    const size_t end = line.find(label) + label.size();
    const auto missing = std::ranges::count_if(label, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; });
    if (end < line.size() && line[end] == ' ') line.insert(end, static_cast<size_t>(missing), ' ');
    return line;
  }

 private:
  const Parsed& parsed_;
};

// "1 to 1024", "at least 1".
std::string RangeText(const IntRange& range) {
  return range.max == INT64_MAX ? fmt::format("at least {}", range.min) : fmt::format("{} to {}", range.min, range.max);
}

// `common` receives the options of every command, anywhere on the command line.
void Declare(const Command& command, CommonOptions& common, Parsed& parsed) {
  CLI::App& app = *parsed.app;
  parsed.command = &command;
  app.allow_extras();  // CheckArguments reports unknown arguments, with the nearest known one
  app.formatter(std::make_shared<HelpFormatter>(parsed));
  app.set_help_flag("-h,--help", kHelpOption.help);
  // Common options are printed once, in the help of the program.
  const bool is_program = parsed.path.find(' ') == std::string::npos;
  const char* const common_group = is_program ? "Global options" : "";
  const std::string program = parsed.path.substr(0, parsed.path.find(' '));
  app.get_help_ptr()->group(common_group);
  std::string footer = command.example.empty() ? "" : "Example:\n  " + command.example;
  if (!is_program)
    footer += fmt::format("{}Global options, such as --quiet, --progress and --vlog: {} --help",
                          footer.empty() ? "" : "\n\n", program);
  app.footer(footer);
  for (const Argument& argument : command.arguments) {
    CLI::Option* option = nullptr;
    if (auto* const* flag = std::get_if<bool*>(&argument.target)) {
      option = app.add_flag(argument.name, **flag, argument.help);
      if (!argument.formerly.empty()) app.add_flag(argument.formerly, **flag)->group("");  // hidden in help
    } else if (auto* const* count = std::get_if<int*>(&argument.target)) {
      option = app.add_flag(argument.name, **count, argument.help);
    } else if (auto* const* list = std::get_if<std::vector<std::string>*>(&argument.target)) {
      option = app.add_option(argument.name, **list, argument.help)->allow_extra_args(IsPositional(argument));
    } else if (auto* const* string = std::get_if<std::string*>(&argument.target)) {
      option = app.add_option(argument.name, **string, argument.help);
    } else {
      option = app.add_option(argument.name, parsed.text[&argument], argument.help);
    }
    if (option->get_items_expected_max() > 0) {
      std::string label = IsPositional(argument) ? "" : argument.value_name;
      if (std::holds_alternative<std::optional<int64_t>*>(argument.target) && argument.range.max != INT64_MAX)
        label += fmt::format(" ({})", RangeText(argument.range));
      if (argument.required && !IsPositional(argument)) label += " (required)";
      option->option_text(IsPositional(argument) ? " " : label);
    }
    parsed.options[&argument] = option;
  }
  // A command line has one subcommand: later words are arguments, even if they have the name of another one.
  if (!command.subcommands.empty()) app.require_subcommand(0, 1);
  const auto in_group = [&](CLI::Option* option, const CommonOption& text) {
    option->option_text(text.value_name)->group(common_group);
  };
  in_group(app.add_option(kVlogOption.name, common.vlog, kVlogOption.help), kVlogOption);
  app.add_flag(kQuietOption.name, common.quiet, kQuietOption.help)->group(common_group);
  in_group(app.add_option(kProgressOption.name, common.progress, kProgressOption.help), kProgressOption);
  const auto add_libraries = [&](const CommonOption& option, std::vector<std::string>& paths) {
    in_group(app.add_option(option.name, paths, option.help)->allow_extra_args(false), option);
  };
  if (common.takes_libraries) {
    add_libraries(kOpLibraryOption, common.libraries.ops);
    add_libraries(kAlgorithmLibraryOption, common.libraries.algorithms);
  }
  for (const Command& subcommand : command.subcommands) {
    auto child = std::make_unique<Parsed>();
    child->application = parsed.application;
    child->app = app.add_subcommand(subcommand.name, subcommand.summary);
    if (subcommand.hidden) child->app->group("");
    child->path = parsed.path + " " + subcommand.name;
    Declare(subcommand, common, *child);
    parsed.children.push_back(std::move(child));
  }
}

std::string Hint(const Parsed& parsed, std::string_view unknown, std::span<const std::string> known) {
  const std::string suggestion = DidYouMean(unknown, known);
  return suggestion.empty() ? fmt::format("; see '{} --help'", parsed.path) : "." + suggestion;
}

// " Did you mean '--set client.optimizer.learning_rate=VALUE'?" for `--lr` of a command that takes keys, or "". An
// option that sets the same key is suggested instead, because it is shorter.
std::string KeyHint(const Parsed& parsed, std::string_view flag) {
  const std::vector<Argument>& arguments = parsed.command->arguments;
  const bool takes_keys = std::ranges::find(arguments, "--set", &Argument::name) != arguments.end();
  if (!takes_keys || parsed.application->nearest_key == nullptr) return "";
  const size_t word = flag.find_first_not_of('-');
  if (word == std::string_view::npos) return "";
  const std::string key = parsed.application->nearest_key(flag.substr(word));
  if (key.empty()) return "";
  const auto sets_it = [&](const Argument& argument) {
    return argument.help.find(fmt::format("as --set {}=", key)) != std::string::npos;
  };
  const auto option = std::ranges::find_if(arguments, sets_it);
  return option == arguments.end() ? fmt::format(" Did you mean '--set {}=VALUE'?", key)
                                   : fmt::format(" Did you mean '{} {}'?", option->name, option->value_name);
}

// The unrecognised arguments, as an error with the nearest known name.
Status CheckUnknown(const Parsed& parsed) {
  bool arguments_only = false;  // after "--"
  for (const std::string& extra : parsed.app->remaining()) {
    if (extra == "--" && !arguments_only) {
      arguments_only = true;
      continue;
    }
    if (extra.size() > 1 && extra[0] == '-' && !arguments_only) {
      std::vector<std::string> known;
      for (const CommonOption& common : CommonOptionsOf(parsed.path)) known.push_back(common.name);
      for (const Argument& argument : parsed.command->arguments) {
        if (!IsPositional(argument)) known.push_back(argument.name);
      }
      const std::string flag = extra.substr(0, extra.find('='));
      const std::string key_hint = DidYouMean(flag, known).empty() ? KeyHint(parsed, flag) : "";
      return UsageError("unknown option '{}' for '{}'{}", Shortened(flag), parsed.path,
                        key_hint.empty() ? Hint(parsed, flag, known) : "." + key_hint);
    }
    if (!parsed.command->subcommands.empty()) {
      std::vector<std::string> known;
      for (const Command* subcommand : ShownSubcommands(*parsed.command)) known.push_back(subcommand->name);
      return UsageError("unknown subcommand '{} {}'{}", parsed.path, Shortened(extra), Hint(parsed, extra, known));
    }
    return UsageError("unexpected argument '{}' for '{}'; see '{} --help'", Shortened(extra), parsed.path, parsed.path);
  }
  return absl::OkStatus();
}

// If it counted as not given, an empty value (such as a script's unset variable) would have an unintended effect.
Status EmptyValue(std::string_view name, const Parsed& parsed) {
  return UsageError("{} is given an empty value; see '{} --help'", name, parsed.path);
}

// Common options are read at each level of the command line, because they may be at any.
Status CheckCommonOptions(const Parsed& parsed) {
  for (const CommonOption& common : CommonOptionsOf(parsed.path)) {
    const CLI::Option* option = parsed.app->get_option_no_throw(common.name);
    if (option != nullptr && option->count() > 0 && std::ranges::count(option->results(), "") > 0)
      return EmptyValue(common.name, parsed);
  }
  for (const auto& child : parsed.children) RIVULET_RETURN_IF_ERROR(CheckCommonOptions(*child));
  return absl::OkStatus();
}

Status CheckArguments(Parsed& parsed) {
  RIVULET_RETURN_IF_ERROR(CheckUnknown(parsed));
  for (const Argument& argument : parsed.command->arguments) {
    const bool given = parsed.options[&argument]->count() > 0;
    if (argument.required && !given) {
      return UsageError("'{}' needs {}; see '{} --help'", parsed.path,
                        IsPositional(argument) ? argument.name : argument.name + " " + argument.value_name,
                        parsed.path);
    }
    bool empty = false;
    if (auto* const* string = std::get_if<std::string*>(&argument.target)) empty = (*string)->empty();
    if (auto* const* list = std::get_if<std::vector<std::string>*>(&argument.target))
      empty = std::find((*list)->begin(), (*list)->end(), "") != (*list)->end();
    if (given && empty) return EmptyValue(argument.name, parsed);
    if (auto* const* integer = std::get_if<std::optional<int64_t>*>(&argument.target); integer && given) {
      const std::string& text = parsed.text[&argument];
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (end != text.data() + text.size() || (error != std::errc() && error != std::errc::result_out_of_range)) {
        return UsageError("{} takes an integer, {}, not '{}'", argument.name, RangeText(argument.range),
                          Shortened(text));
      }
      if (error == std::errc::result_out_of_range)
        return UsageError("{} must be {}, not {}", argument.name, RangeText(argument.range), Shortened(text));
      if (value < argument.range.min || value > argument.range.max) {
        return argument.range.max == INT64_MAX
                   ? UsageError("{} must be at least {}, not {}", argument.name, argument.range.min, value)
                   : UsageError("{} must be between {} and {}, not {}", argument.name, argument.range.min,
                                argument.range.max, value);
      }
      **integer = value;
    }
  }
  return absl::OkStatus();
}

Status Run(Parsed& parsed) {
  for (auto& child : parsed.children) {
    if (child->app->parsed()) {
      RIVULET_RETURN_IF_ERROR(CheckUnknown(parsed));
      return Run(*child);
    }
  }
  RIVULET_RETURN_IF_ERROR(CheckArguments(parsed));
  if (!parsed.command->run) return UsageError("'{}' needs a subcommand; see '{} --help'", parsed.path, parsed.path);
  return parsed.command->run();
}

// The deepest subcommand the parser reached, for messages and help.
const Parsed& Deepest(const Parsed& parsed) {
  for (const auto& child : parsed.children) {
    if (child->app->parsed()) return Deepest(*child);
  }
  return parsed;
}

// `rivulet help COMMAND…`.
Status PrintHelp(const Parsed& root, std::span<const std::string> words) {
  if (root.application->print_topic != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const bool printed, root.application->print_topic(words));
    if (printed) return absl::OkStatus();
  }
  const Parsed* at = &root;
  for (const std::string& word : words) {
    const auto child = std::ranges::find(at->children, word, [](const auto& c) { return c->command->name; });
    if (child == at->children.end()) {
      std::vector<std::string> known;
      for (const Command* child : ShownSubcommands(*at->command)) known.push_back(child->name);
      return UsageError("there is no '{} {}'{}", at->path, Shortened(word), Hint(*at, word, known));
    }
    at = child->get();
  }
  // App::help() would print that of the given subcommand, which is `help`.
  fmt::print("{}", at->app->get_formatter()->make_help(at->app, "", CLI::AppFormatMode::Normal));
  return absl::OkStatus();
}

int Report(const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", program_name, ErrorLines(Message(status)));
  if (IsStoppedAsAsked(status)) return 0;
  return IsUsageError(status) ? 2 : 1;
}

// Log levels of the command line, or else of the environment. Child processes inherit them.
Status SetUpLogs(const std::string& vlog) {
  const char* variable = std::getenv(kVlogVariable);
  if (!vlog.empty()) {
    RIVULET_RETURN_IF_ERROR(AsUsageError(Annotate(SetVlogLevels(vlog), kVlogOption.name)));
    setenv(kVlogVariable, vlog.c_str(), 1);
  } else if (variable != nullptr) {
    return AsUsageError(Annotate(SetVlogLevels(variable), kVlogVariable));
  }
  return absl::OkStatus();
}

Status SetUpProgress(const CommonOptions& common) {
  if (common.quiet && !common.progress.empty())
    return UsageError("--quiet hides progress and --progress shows it; give one of them");
  if (!common.progress.empty() && common.progress != "auto" && common.progress != "json")
    return UsageError("--progress takes auto or json, not '{}'", Shortened(common.progress));
  SetProgressStyle(common.quiet                ? ProgressStyle::kQuiet
                   : common.progress == "json" ? ProgressStyle::kJson
                                               : ProgressStyle::kText);
  return absl::OkStatus();
}

// An uncaught exception of a library, as one sentence: never a type's name or a dumped core.
void ReportException(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const std::filesystem::filesystem_error& error) {
    // Its what() begins with "filesystem error:" and the name of a call.
    fmt::print(stderr, "{}: {}{}{}\n", program_name, OneLine(error.path1().string()), error.path1().empty() ? "" : ": ",
               error.code().message());
  } catch (const std::system_error& error) {
    // A reader that stops early (`| head`) needs no message.
    if (error.code() == std::errc::broken_pipe) return;
    const bool resources = error.code() == std::errc::resource_unavailable_try_again;
    fmt::print(stderr, "{}: {}{}\n", program_name,
               resources ? "the system gives this process no further thread, or no memory for one: " : "",
               OneLine(error.what()));
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: out of memory\n", program_name);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program_name, ErrorLines(error.what()));
  } catch (...) {
    fmt::print(stderr, "{}: an unknown failure\n", program_name);
  }
}

// Called only for an uncaught exception; a bug of ours still ends with a trace.
void OnTerminate() {
  if (std::exception_ptr thrown = std::current_exception()) {
    ReportException(std::move(thrown));
    _exit(1);
  }
  std::abort();
}

// Allocates no memory: stderr has no buffer.
void EndWithoutMemory() {
  std::fputs(program_name, stderr);
  std::fputs(": out of memory\n", stderr);
  _exit(1);
}

// Ops, kernels and commands register themselves before main, which may already run out of memory.
__attribute__((constructor(101))) void PrepareForTheWorst() {
  std::set_terminate(OnTerminate);
  EndWhereMemoryIsMissing(EndWithoutMemory);
}

// Threads get their stack size from this limit, and none of them can detect one that is too small.
Status CheckStackLimit() {
  constexpr rlim_t kLeast = rlim_t{512} << 10;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return absl::OkStatus();
  return ResourceExhausted("stacks may take {} KiB each, and {} are needed; raise the limit: ulimit -s {}",
                           limit.rlim_cur >> 10, kLeast >> 10, 8 << 10);
}

int Main(const Application& application, int argc, char** argv) {
  InstallFatalSignalHandler();
  std::signal(SIGPIPE, SIG_IGN);  // `rivulet … | head` ends by a failed write, and a lost peer by a Status
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is a failed write too
  if (const Status stack = CheckStackLimit(); !stack.ok()) return Report(stack);
  if (argc > 1 && std::string_view(argv[1]) == "--") {  // the subcommand follows
    std::copy(argv + 2, argv + argc + 1, argv + 1);
    --argc;
  }
  if (const char* targets = std::getenv(kCpuTargetsVariable)) {
    const Status status = RestrictCpuTargets(targets);
    if (!status.ok()) return Report(AsUsageError(Annotate(status, kCpuTargetsVariable)));
  }
  RootArguments arguments;
  Command root = application.root(&arguments);
  CLI::App app(root.summary, root.name);
  Parsed parsed;
  if (!root.run) {
    // The words after `help` are commands' names, which the parser would take for commands.
    if (argc > 2 && std::string_view(argv[1]) == kHelpCommand && argv[2][0] != '-') {
      arguments.help_of.assign(argv + 2, argv + argc);
      argc = 2;
    }
    root.run = [&]() -> Status {
      fmt::print("{}", app.help());
      return UsageError("'{}' needs a subcommand", application.name);
    };
    std::ranges::find(root.subcommands, kHelpCommand, &Command::name)->run = [&] {
      return PrintHelp(parsed, arguments.help_of);
    };
  }
  parsed.application = &application;
  parsed.app = &app;
  parsed.path = application.name;
  CommonOptions common{.takes_libraries = application.load_libraries != nullptr};
  Declare(root, common, parsed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", Deepest(parsed).app->help());
    return 0;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view message = error.what();  // "--db: 1 required TEXT missing", "--db: At Most 1 required but …"
    return Report(UsageError("{} {}; see '{} --help'", message.substr(0, message.find(':')),
                             message.ends_with("missing") ? "needs a value" : "may be given only once",
                             Deepest(parsed).path));
  } catch (const CLI::ParseError& error) {
    return Report(UsageError("{}; see '{} --help'", error.what(), Deepest(parsed).path));
  }
  if (const Status status = CheckCommonOptions(parsed); !status.ok()) return Report(status);
  if (const Status status = SetUpLogs(common.vlog); !status.ok()) return Report(status);
  if (const Status status = SetUpProgress(common); !status.ok()) return Report(status);
  if (application.load_libraries != nullptr) {
    if (const Status status = application.load_libraries(common.libraries); !status.ok()) return Report(status);
  }
  if (arguments.version && &Deepest(parsed) == &parsed) {
    const Status status = CheckUnknown(parsed);
    if (status.ok()) PrintVersion(application.name);
    return Report(status);
  }
  return Report(Run(parsed));
}

}  // namespace

int RunApplication(const Application& application, int argc, char** argv) {
  program_name = application.name;
  MakeStandardErrorForgiving();
  // The library logs a line for each malformed message, so a stranger could flood a coordinator's log. The readers of
  // bytes report their faults.
  google::protobuf::SetLogHandler(nullptr);
  try {
    const EarlyExitGuard guard(program_name);
    const int code = Main(application, argc, argv);
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code == 0) {
      // A reader that stops early (`| head`) needs no message; a full disk does.
      if (errno != EPIPE) fmt::print(stderr, "{}: standard output could not be written\n", program_name);
      return 1;
    }
    return code;
  } catch (...) {
    ReportException(std::current_exception());
  }
  return 1;
}

}  // namespace rivulet
