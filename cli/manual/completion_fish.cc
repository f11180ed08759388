// Completion for fish, 3.1 or later.
#include "cli/manual/completion_words.h"
#include "engine/base/join.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

constexpr std::string_view kFishBefore = R"sh(# fish completion of rivulet; made by 'rivulet completion fish'.
)sh";
constexpr std::string_view kFishFunctions = R"sh(
# The command that the words so far name: "rivulet runs show".
function __rivulet_command
    set -l words (commandline -opc)
    set -l command (string replace -r '.*/' '' -- $words[1])
    for word in $words[2..-1]
        contains -- "$command $word" $__rivulet_commands; and set command "$command $word"
    end
    echo $command
end
function __rivulet_at
    test (__rivulet_command) = "$argv"
end
# Candidates that the program knows: kind, word.
function __rivulet_ask
    set -l words (commandline -opc)
    set -l more
    if set -l at (contains -i -- --db $words)
        set more --db $words[(math $at + 1)]
    end
    $words[1] complete $argv $more 2>/dev/null
end
function __rivulet_keys
    set -l word (commandline -ct)
    if string match -q -- '*=*' $word
        set -l key (string replace -r '=.*' '' -- $word)
        __rivulet_ask values $key | string replace -r '^' "$key="
    else
        __rivulet_ask keys
    end
end

)sh";

std::string FishQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// The arguments of `complete` for a value; after an option it is required.
std::string FishValue(Follows follows, const std::vector<std::string>& words, bool option) {
  const std::string alone = option ? " -x" : "";
  switch (follows) {
    case Follows::kNothing:
      return "";
    case Follows::kAnything:
      return alone;
    case Follows::kFiles:
      return option ? " -r -F" : " -F";
    case Follows::kFolders:
      return alone + " -a '(__fish_complete_directories)'";
    case Follows::kScenarios:
      return (option ? " -r -F" : " -F") + std::string(" -a '(__rivulet_ask scenarios)'");
    case Follows::kRuns:
      return alone + " -a '(__rivulet_ask runs)'";
    case Follows::kKeys:
      return alone + " -a '(__rivulet_keys)'";
    case Follows::kWords:
      return alone + " -a " + FishQuoted(Join(words, " "));
  }
  return "";
}

}  // namespace

std::string FishCompletion(const std::vector<CompletedCommand>& commands) {
  std::string paths, lines = "complete -c rivulet -f\ncomplete -c rivulet-client -f\n";
  for (const CompletedCommand& command : commands) {
    if (command.path.find(' ') != std::string::npos) paths += fmt::format(" \\\n    {}", FishQuoted(command.path));
    const std::string begin = fmt::format("complete -c {} -n '__rivulet_at {}'",
                                          command.path.substr(0, command.path.find(' ')), command.path);
    for (const CompletedWord& subcommand : command.subcommands)
      lines += fmt::format("{} -a {} -d {}\n", begin, subcommand.word, FishQuoted(subcommand.about));
    for (const CompletedOption& option : command.options) {
      const std::string name =
          option.name.starts_with("--") ? "-l " + option.name.substr(2) : "-s " + option.name.substr(1);
      lines += fmt::format("{} {}{} -d {}\n", begin, name, FishValue(option.follows, option.words, true),
                           FishQuoted(option.about));
    }
    if (const std::string argument = FishValue(command.argument, {}, false); !argument.empty())
      lines += fmt::format("{}{}\n", begin, argument);
  }
  return fmt::format("{}set -g __rivulet_commands{}\n{}{}", kFishBefore, paths, kFishFunctions, lines);
}

}  // namespace rivulet
