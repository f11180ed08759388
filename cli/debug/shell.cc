#include "cli/debug/shell.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "cli/command.h"
#include "cli/debug/arguments.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

StatusOr<int64_t> Count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1'000'000'000)
    return UsageError("'{}' is no number between 1 and 1000000000", text);
  return value;
}

std::string Place(const DebugStop& stop) {
  const std::string line = stop.source_line.empty() ? "" : fmt::format(" ({})", stop.source_line);
  const std::string phase = stop.phase == "step" ? fmt::format("step {}", stop.step + 1) : stop.phase;
  return fmt::format("{}, call {} of {}: {} '{}'{}", phase, stop.instruction + 1, stop.instructions, stop.op, stop.node,
                     line);
}

std::string_view Name(DebugStop::Why why) {
  switch (why) {
    case DebugStop::Why::kStep:
      return "step";
    case DebugStop::Why::kCondition:
      return "condition";
    case DebugStop::Why::kBreakpoint:
      return "breakpoint";
    case DebugStop::Why::kInstruction:
      return "instruction";
    case DebugStop::Why::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace

StatusOr<std::vector<std::vector<std::string>>> SplitCommands(std::string_view line) {
  std::vector<std::vector<std::string>> commands(1);
  std::string word;
  bool in_word = false;
  char quote = 0;
  int brackets = 0;
  const auto end_word = [&] {
    if (in_word) commands.back().push_back(std::move(word));
    word.clear();
    in_word = false;
  };
  for (const char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (brackets == 0 && (c == ' ' || c == '\t')) {
      end_word();
    } else if (brackets == 0 && c == ';') {
      end_word();
      commands.emplace_back();
    } else {
      // Blanks are kept only inside a slice, which follows a name.
      if (c == '[' && in_word) ++brackets;
      if (c == ']' && brackets > 0) --brackets;
      word += c;
      in_word = true;
    }
  }
  if (quote != 0 || brackets != 0) return UsageError("'{}' lacks a closing {}", line, quote != 0 ? "quote" : "bracket");
  end_word();
  std::erase_if(commands, [](const auto& words) { return words.empty(); });
  return commands;
}

StatusOr<int64_t> DebugShell::Arguments::Number(char flag, int64_t fallback) const {
  return Has(flag) ? Count(Value(flag)) : fallback;
}

StatusOr<std::regex> DebugShell::Arguments::Regex(char flag) const {
  try {
    return std::regex(Has(flag) ? Value(flag) : ".*", std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    return UsageError("'{}' is no regular expression: {}", Value(flag), error.what());
  }
}

const std::vector<DebugShell::CommandDef>& DebugShell::Commands() {
  static const std::vector<CommandDef> commands = {
      {"run", "r", "run [-t N] [-f CONDITION] [-n]",
       "Continue to the end of this step or of N steps, until a tensor meets has_nan, has_inf, has_inf_or_nan, abs>C, "
       "max>C or min<C, or (-n) to the end of the run.",
       "n", "tf", 0, 0, &DebugShell::RunCommand},
      {"step", "s", "step [N]", "Continue for one call of a kernel, or N.", "", "", 0, 1, &DebugShell::Step},
      {"break", "b", "break [NODE] [-d NODE]",
       "Stop after this node, or (-d) remove the break; alone: list all breaks.", "", "d", 0, 1, &DebugShell::Break},
      {"lt", "list_tensors", "lt [-n NAME] [-t OP] [-f CONDITION] [-s name|op|size|time|dump] [-r]",
       "List the tensors of this step; -n and -t are regular expressions, -s sorts, -r reverses.", "r", "ntfs", 0, 0,
       &DebugShell::ListTensors},
      {"pt", "print_tensor", "pt TENSOR[SLICE] [-s] [-a] [-r MIN,MAX] [-w FILE.npy]",
       "Print values, as in 'pt logits[0, :3]'; -s statistics, -a all of a large one, -r marks a range, -w writes a "
       "file.",
       "sa", "rw", 1, 1, &DebugShell::PrintTensor},
      {"ni", "node_info", "ni NODE [-t] [-d]",
       "Describe a node; -t its origin and its op's, -d its values in this step.", "td", "", 1, 1,
       &DebugShell::NodeInfo},
      {"li", "list_inputs", "li NODE [-r] [-d DEPTH] [-c]", "Its inputs; -r their inputs too, -c control inputs too.",
       "rc", "d", 1, 1, &DebugShell::ListInputs},
      {"lo", "list_outputs", "lo NODE [-r] [-d DEPTH] [-c]", "List the consumers of a node.", "rc", "d", 1, 1,
       &DebugShell::ListOutputs},
      {"ri", "run_info", "ri", "Describe the program: feeds, fetches, memory, and the present position.", "", "", 0, 0,
       &DebugShell::RunInfo},
      {"ps", "print_source", "ps [-n FILE]", "Source lines, and the nodes that each has built.", "", "n", 0, 0,
       &DebugShell::PrintSource},
      {"dump", "", "dump FOLDER [-n NAME]", "Write the tensors of this step as .npy files, and index.json.", "", "n", 1,
       1, &DebugShell::Dump},
      {"help", "h", "help [COMMAND]", "This.", "", "", 0, 1, &DebugShell::Help},
      {"quit", "q", "quit", "End the run and the debugger.", "", "", 0, 0, &DebugShell::Quit},
  };
  return commands;
}

DebugShell::DebugShell(DebugTarget& target, DebugShellOptions options, NextLine next)
    : target_(target),
      options_(options),
      next_(std::move(next)),
      debugger_({.recorder = {.memory_bytes = options.memory_bytes}, .phase_of = target.phase_of},
                [this](const DebugStop& stop) { return OnStop(stop); }) {}

Status DebugShell::Run() {
  Status status = Loop();
  Status failure;
  if (status.ok()) {
    const StatusOr<std::string> outcome = target_.run(&debugger_);
    over_ = true;
    status = outcome.status();
    if (!quit_ && command_error_.ok()) {
      failure = outcome.status();
      outcome_ = outcome.ok() ? *outcome : std::string(Sentence(Message(failure)));
      if (options_.json) {
        Print({{"stopped", std::string(outcome.ok() ? "over" : "failed")}, {"outcome", outcome_}});
      } else {
        fmt::print("the run {}: {}\n", outcome.ok() ? "is over" : "failed", outcome_);
      }
      Loop().IgnoreError();  // its end no longer matters
    } else if (!absl::IsCancelled(status)) {
      failure = status;  // it was inspected before "quit"
    }
  }
  if (!command_error_.ok()) return command_error_;
  return options_.interactive ? absl::OkStatus() : failure;
}

Status DebugShell::Loop() {
  goes_on_ = false;
  while (!goes_on_) {
    if (pending_.empty()) {
      const std::optional<std::string> line = next_();
      if (!line) {
        quit_ = true;
        return Cancelled("quit");
      }
      StatusOr<std::vector<std::vector<std::string>>> commands = SplitCommands(*line);
      if (!commands.ok()) {
        if (!options_.interactive) {
          command_error_ = commands.status();
          return Cancelled("a command failed");
        }
        fmt::print("{}\n", Message(commands.status()));
        continue;
      }
      pending_ = *std::move(commands);
      std::ranges::reverse(pending_);
      continue;
    }
    const std::vector<std::string> words = std::move(pending_.back());
    pending_.pop_back();
    if (!options_.interactive && !options_.json) fmt::print("rivulet> {}\n", Join(words, " "));
    const Status status = Execute(words);
    std::fflush(stdout);
    if (quit_) return Cancelled("quit");
    if (status.ok()) continue;
    if (!options_.interactive) {
      command_error_ = status;
      return Cancelled("a command failed");
    }
    fmt::print("{}\n", ErrorLines(Message(status)));
    pending_.clear();
  }
  return absl::OkStatus();
}

Status DebugShell::Execute(const std::vector<std::string>& words) {
  const CommandDef* command = nullptr;
  std::vector<std::string> names;
  for (const CommandDef& each : Commands()) {
    names.emplace_back(each.name);
    if (words[0] == each.name || (!each.other_name.empty() && words[0] == each.other_name)) command = &each;
  }
  if (command == nullptr)
    return UsageError("there is no command '{}'; see help.{}", words[0], DidYouMean(words[0], names));
  Arguments arguments;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    // "-3" is a number, "-n" a flag.
    const bool flag = word.size() == 2 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
    if (!flag) {
      arguments.words.push_back(word);
    } else if (command->flags.find(word[1]) != std::string_view::npos) {
      arguments.flags[word[1]] = "";
    } else if (command->value_flags.find(word[1]) != std::string_view::npos) {
      if (i + 1 == words.size()) return UsageError("{} needs a value: {}", word, command->usage);
      arguments.flags[word[1]] = words[++i];
    } else {
      return UsageError("'{}' has no flag {}: {}", command->name, word, command->usage);
    }
  }
  const auto count = static_cast<int>(arguments.words.size());
  if (count < command->min_words || count > command->max_words)
    return UsageError("'{}' is not how '{}' is written: {}", Join(words, " "), command->name, command->usage);
  return (this->*command->handler)(arguments);
}

Status DebugShell::OnStop(const DebugStop& stop) {
  stop_ = stop;
  stop_->source_line = SourceLineOf(stop.node, stop.source_line);
  PrintStop(*stop_);
  return Loop();
}

void DebugShell::PrintStop(const DebugStop& stop) const {
  const TensorRecord* record = stop.tensor.empty() ? nullptr : debugger_.recorder().Find(stop.tensor);
  if (options_.json) {
    Fields fields = {{"stopped", std::string(Name(stop.why))}, {"phase", stop.phase}};
    if (stop.phase == "step") fields.emplace_back("step", stop.step + 1);
    fields.insert(fields.end(), {{"call", int64_t{stop.instruction} + 1},
                                 {"calls", int64_t{stop.instructions}},
                                 {"node", stop.node},
                                 {"op", stop.op},
                                 {"built_at", TextCell(stop.source_line)},
                                 {"tensor", TextCell(stop.tensor)},
                                 {"condition", TextCell(stop.condition)}});
    if (record != nullptr)
      fields.insert(fields.end(), {{"nan", record->statistics.nan}, {"infinite", record->statistics.infinite()}});
    if (!stop.error.ok()) fields.emplace_back("error", std::string(Sentence(Message(stop.error))));
    return Print(fields);
  }
  switch (stop.why) {
    case DebugStop::Why::kStep:
      fmt::print("step {} is over: {} tensors\n", stop.step + 1, debugger_.recorder().records().size());
      break;
    case DebugStop::Why::kCondition:
      fmt::print("{} holds for '{}' after {}\n", stop.condition, stop.tensor, Place(stop));
      if (record != nullptr) {
        const TensorStatistics& s = record->statistics;
        fmt::print("    {}{}: {} NaN, {} infinite of {}; the others from {:.6g} to {:.6g}\n",
                   rivulet::Name(record->spec.dtype), record->spec.shape.ToString(), s.nan, s.infinite(), s.elements,
                   s.min, s.max);
      }
      break;
    case DebugStop::Why::kBreakpoint:
    case DebugStop::Why::kInstruction:
      fmt::print("after {}\n", Place(stop));
      break;
    case DebugStop::Why::kFailed:
      fmt::print("{} failed: {}\n", Place(stop), Sentence(Message(stop.error)));
      break;
  }
}

Status DebugShell::RunCommand(const Arguments& arguments) {
  if (arguments.Has('t') + arguments.Has('f') + arguments.Has('n') > 1)
    return UsageError("run takes one of -t, -f and -n");
  if (over_) return FailedPrecondition("the run is over ({}); start the debugger again to run again", outcome_);
  RIVULET_ASSIGN_OR_RETURN(const int64_t steps, arguments.Number('t', 1));
  if (arguments.Has('f')) {
    StatusOr<WatchCondition> condition = WatchCondition::Parse(arguments.Value('f'));
    if (!condition.ok()) return AsUsageError(condition.status());
    debugger_.RunUntil(*std::move(condition));
  } else if (arguments.Has('n')) {
    debugger_.RunToEnd();
  } else {
    debugger_.RunSteps(steps);
  }
  goes_on_ = true;
  return absl::OkStatus();
}

Status DebugShell::Step(const Arguments& arguments) {
  if (over_) return FailedPrecondition("the run is over ({}); start the debugger again to run again", outcome_);
  int64_t count = 1;
  if (!arguments.words.empty()) {
    RIVULET_ASSIGN_OR_RETURN(count, Count(arguments.words[0]));
  }
  debugger_.StepInstructions(count);
  goes_on_ = true;
  return absl::OkStatus();
}

Status DebugShell::Break(const Arguments& arguments) {
  auto& breakpoints = debugger_.breakpoints();
  if (arguments.Has('d')) {
    if (breakpoints.erase(arguments.Value('d')) == 0)
      return NotFound(
          "there is no break at '{}'.{}", arguments.Value('d'),
          DidYouMean(arguments.Value('d'), std::vector<std::string>(breakpoints.begin(), breakpoints.end())));
    return absl::OkStatus();
  }
  if (arguments.words.empty()) {
    Table table({{"node"}});
    for (const std::string& node : breakpoints) table.Add({node});
    Print(table, "no breakpoints");
    return absl::OkStatus();
  }
  // Names inside of loops and calls are known only when they run.
  RIVULET_ASSIGN_OR_RETURN(const Node* node, NodeCalled(arguments.words[0]));
  if (CallOf(node->name()) < 0) return FailedPrecondition("'{}' {}", node->name(), WhyNoCall(*node));
  breakpoints.insert(node->name());
  return absl::OkStatus();
}

Status DebugShell::Quit(const Arguments&) {
  quit_ = true;
  return absl::OkStatus();
}

Status DebugShell::Help(const Arguments& arguments) {
  Table table({{"command"}, {"does"}});
  for (const CommandDef& command : Commands()) {
    if (!arguments.words.empty() && arguments.words[0] != command.name && arguments.words[0] != command.other_name)
      continue;
    table.Add({std::string(command.usage), std::string(command.help)});
  }
  if (table.size() == 0) return UsageError("there is no command '{}'", arguments.words[0]);
  Print(table, "");
  return absl::OkStatus();
}

std::vector<std::string> DebugShell::Completions(std::string_view line, std::string_view word) const {
  std::vector<std::string> completions;
  const auto offer = [&](std::string_view name) {
    if (name.starts_with(word) && std::ranges::find(completions, name) == completions.end())
      completions.emplace_back(name);
  };
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || line.find(' ', begin) == std::string_view::npos) {
    for (const CommandDef& command : Commands()) offer(command.name);
    return completions;
  }
  for (const TensorRecord& record : debugger_.recorder().records()) offer(record.name);
  for (const auto& node : target_.optimized.graph.nodes()) offer(node->name());
  for (const auto& node : target_.graph.nodes()) offer(node->name());
  std::ranges::sort(completions);
  return completions;
}

void DebugShell::Print(const Table& table, std::string_view when_empty) const {
  if (options_.json) {
    fmt::print("{}", table.Json());
  } else if (table.size() == 0) {
    fmt::print("{}\n", when_empty);
  } else {
    fmt::print("{}", table.Text());
  }
}

void DebugShell::Print(const Fields& fields) const {
  if (options_.json) {
    fmt::print("{}\n", JsonObject(fields));
    return;
  }
  Fields texts = fields;
  for (auto& [name, cell] : texts)
    if (const double* number = std::get_if<double>(&cell)) cell = fmt::format("{:.6g}", *number);
  fmt::print("{}", FieldLines(texts));
}

std::string DebugShell::SourceLineOf(std::string_view node, const std::string& own) const {
  if (!own.empty()) return own;
  const auto found = target_.source_lines.find(node);
  return found == target_.source_lines.end() ? "" : found->second;
}

}  // namespace rivulet
