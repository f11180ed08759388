// Candidates at each place of the command line, for the scripts of `rivulet completion`, from the tables that help is
// printed from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

// Kind of an option's value or of an argument.
enum class Follows {
  kNothing,    // of a flag
  kAnything,   // a number, or a name without candidates
  kFiles,      //
  kFolders,    //
  kScenarios,  // names of scenarios, and files
  kRuns,       // ids of a history
  kKeys,       // KEY=VALUE of a scenario
  kWords,      // one of `words`
};
// "files": the name in scripts and for `rivulet complete`.
std::string_view Name(Follows follows);

struct CompletedOption {
  std::string name;   // "--db"
  std::string about;  // a few words of its help
  Follows follows = Follows::kNothing;
  std::vector<std::string> words = {};
};

struct CompletedWord {
  std::string word, about;
};

struct CompletedCommand {
  std::string path;  // "rivulet runs show"
  std::vector<CompletedWord> subcommands;
  std::vector<CompletedOption> options;
  Follows argument = Follows::kNothing;
};

// Lists the commands of `rivulet` and `rivulet-client`, each command before its subcommands.
std::vector<CompletedCommand> CompletedCommands();

// The scripts, one per shell.
std::string BashCompletion(const std::vector<CompletedCommand>& commands);
std::string ZshCompletion(const std::vector<CompletedCommand>& commands);
std::string FishCompletion(const std::vector<CompletedCommand>& commands);

}  // namespace rivulet
