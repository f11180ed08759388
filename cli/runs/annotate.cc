// rivulet runs tag | note: people's remarks on a run.
#include "cli/runs/commands.h"
#include "engine/base/clock.h"

namespace rivulet {
namespace {

struct SayOptions {
  HistoryOptions history;
  std::string run;
  std::string text;  // a tag or a note
};

// The run may be running: SQLite lets several processes write one file in turn. It is opened for reading first, because
// opening for writing would create the file of a mistyped name.
StatusOr<std::pair<std::unique_ptr<History>, std::string>> OpenToSay(const SayOptions& options) {
  if (OneLine(options.text) != options.text || options.text.find_first_not_of(' ') == options.text.npos) {
    return UsageError("'{}' is no line of text", Shortened(OneLine(options.text)));
  }
  std::string run_id;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
    run_id = run.run_id;
  }
  RIVULET_ASSIGN_OR_RETURN(auto history, History::Open(options.history.db, History::Access::kReadWrite));
  return std::pair(std::move(history), std::move(run_id));
}

Status TagRun(const SayOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto opened, OpenToSay(options));
  return opened.first->AddTag(opened.second, options.text);
}

Status NoteOnRun(const SayOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto opened, OpenToSay(options));
  return opened.first->AddNote(opened.second, Iso8601(rivulet::Clock::System().UnixMs()), options.text);
}

Command SayCommand(Command command, std::string value_name, Status (*run)(const SayOptions&)) {
  auto options = std::make_shared<SayOptions>();
  command.Positional("RUN", &options->run, kRunHelp)
      .Positional(std::move(value_name), &options->text, "one line of text");
  AddHistoryOptions(command, &options->history, false);
  command.run = [options, run] { return run(*options); };
  return command;
}

}  // namespace

Command RunsTagCommand() {
  return SayCommand({.name = "tag",
                     .summary = "Tag a run, for lists and queries.",
                     .example = "rivulet runs tag latest baseline\n  rivulet runs list --where tag=baseline"},
                    "TAG", TagRun);
}

Command RunsNoteCommand() {
  return SayCommand(
      {.name = "note", .summary = "Add a note to a run.", .example = "rivulet runs note latest 'with the old labels'"},
      "TEXT", NoteOnRun);
}

}  // namespace rivulet
