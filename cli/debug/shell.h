// Commands of `rivulet debug`, modelled on those of TensorFlow's tfdbg: they inspect a step's tensors and continue the
// run. The shell connects a source of command lines (a terminal, -c, a script) with a Debugger.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/debug/target.h"
#include "engine/base/status.h"
#include "engine/base/table.h"
#include "engine/debug/debugger.h"

namespace rivulet {

struct DebugShellOptions {
  bool json = false;         // results as JSON, one value per command
  bool interactive = false;  // an error is printed and the next command read; else it ends the session
  size_t memory_bytes = size_t{1} << 30;
};

class DebugShell {
 public:
  // The next command line; nullopt: there are no more, which means "quit".
  using NextLine = std::function<std::optional<std::string>()>;
  DebugShell(DebugTarget& target, DebugShellOptions options, NextLine next);

  // Runs until "quit" or the end of the commands. For a script it returns the error of the command that ended it (a
  // usage error if its words are wrong), or of the run.
  Status Run();

  // Completions of a line: command names for its first word, node and tensor names after it.
  std::vector<std::string> Completions(std::string_view line, std::string_view word) const;

 private:
  struct Arguments;
  struct CommandDef;
  using Handler = Status (DebugShell::*)(const Arguments&);
  static const std::vector<CommandDef>& Commands();

  // Reads and runs commands until one continues the run. CANCELLED: quit, or a command of a script failed.
  Status Loop();
  Status Execute(const std::vector<std::string>& words);
  Status OnStop(const DebugStop& stop);
  void PrintStop(const DebugStop& stop) const;

  // Commands that continue the run.
  Status RunCommand(const Arguments& arguments);
  Status Step(const Arguments& arguments);
  Status Break(const Arguments& arguments);
  Status Quit(const Arguments& arguments);
  Status Help(const Arguments& arguments);
  // Commands that only inspect (cli/debug/inspect_commands.cc).
  Status ListTensors(const Arguments& arguments);
  Status PrintTensor(const Arguments& arguments);
  Status NodeInfo(const Arguments& arguments);
  Status ListInputs(const Arguments& arguments);
  Status ListOutputs(const Arguments& arguments);
  Status RunInfo(const Arguments& arguments);
  Status PrintSource(const Arguments& arguments);
  Status Dump(const Arguments& arguments);

  void Print(const Table& table, std::string_view when_empty) const;
  void Print(const Fields& fields) const;
  // A recorded tensor, a constant, a variable, or a view of one of these.
  StatusOr<Tensor> TensorCalled(std::string_view name) const;
  // A node of the graph that runs, or of the graph before the passes. NOT_FOUND names the nearest.
  StatusOr<const Node*> NodeCalled(std::string_view name) const;
  const Graph& GraphOf(const Node& node) const;
  std::string SourceLineOf(std::string_view node, const std::string& own) const;
  // The op of the node that made a tensor, not of its reader.
  std::string_view OpOf(const TensorRecord& record) const;
  // Position of a node's call in the step's program, or -1.
  int CallOf(std::string_view node) const;
  // Why a node is no separate call: "is left out by the pass fuse_products (…); …".
  std::string WhyNoCall(const Node& node) const;
  Status ListEdges(const Arguments& arguments, bool inputs);

  DebugTarget& target_;
  const DebugShellOptions options_;
  const NextLine next_;
  Debugger debugger_;
  std::vector<std::vector<std::string>> pending_;  // remaining commands of a line, last first
  std::optional<DebugStop> stop_;
  bool over_ = false, goes_on_ = false, quit_ = false;
  std::string outcome_;   // of a finished run
  Status command_error_;  // it ended a script
};

// The words of a command line, split at ';' into commands and at blanks into words, except inside quotes and brackets.
// INVALID_ARGUMENT: an unclosed quote or bracket.
StatusOr<std::vector<std::vector<std::string>>> SplitCommands(std::string_view line);

}  // namespace rivulet
