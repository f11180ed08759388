// rivulet manual: every command's help as a page for man(1), and the keys of scenarios as another. `cmake --install`
// calls it, so the pages match the program beside them.
#include "cli/manual/roff.h"
#include "cli/program/root.h"
#include "engine/base/file_system.h"
#include "engine/io/new_folder.h"

namespace rivulet {
namespace {

// "rivulet ca issue" is the page rivulet-ca-issue(1).
std::string PageName(std::string_view path) {
  std::string name(path);
  for (char& c : name)
    if (c == ' ') c = '-';
  return name;
}

std::string OptionEntry(std::string_view name, std::string_view value_name, std::string_view help) {
  return fmt::format(".TP\n.B {}{}\n{}\n", Roff(name),
                     value_name.empty() ? "" : fmt::format(" \\fI{}\\fR", Roff(value_name)), Roff(help));
}

std::string Page(const Command& command, const std::string& path) {
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"rivulet {}\" \"Rivulet\"\n.SH NAME\n{} \\- {}\n",
                                 Roff(PageName(path)), RIVULET_VERSION, Roff(PageName(path)), Roff(command.summary));
  page += fmt::format(".SH SYNOPSIS\n.B {}\n{}\n", Roff(path), Roff(UsageOf(command, path).substr(path.size() + 1)));
  if (!command.subcommands.empty()) {
    page += ".SH SUBCOMMANDS\n";
    for (const Command* child : ShownSubcommands(command)) {
      page += fmt::format(".TP\n.BR {} (1)\n{}\n", Roff(PageName(path + " " + child->name)), Roff(child->summary));
    }
  }
  std::string positionals, options;
  for (const Argument& argument : command.arguments) {
    if (IsPositional(argument)) {
      positionals += OptionEntry(argument.name, "", argument.help);
    } else {
      options += OptionEntry(argument.name, argument.value_name,
                             argument.required ? argument.help + " (required)" : argument.help);
    }
  }
  if (!positionals.empty()) page += ".SH ARGUMENTS\n" + positionals;
  for (const CommonOption& common : CommonOptionsOf(path))
    options += OptionEntry(common.name, common.value_name, common.help);
  page += ".SH OPTIONS\n" + options;
  page += fmt::format(".SH EXAMPLE\n.nf\n{}\n.fi\n", Roff(command.example));
  page +=
      ".SH EXIT STATUS\n0 when all went well, 2 for wrong usage, 1 for any other error, which is one sentence on "
      "standard error.\n";
  if (path.find(' ') != std::string::npos)
    page += fmt::format(".SH SEE ALSO\n.BR {} (1)\n", Roff(PageName(path.substr(0, path.rfind(' ')))));
  return page;
}

Status WritePages(const Command& command, const std::string& path, const std::string& folder, int& pages) {
  FileSystem& fs = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(folder, PageName(path) + ".1"), Page(command, path)));
  ++pages;
  for (const Command* child : ShownSubcommands(command)) {
    const std::string below = path + " " + child->name;
    if (PageName(below) == kClientProgram) continue;  // one page, under the program's own name
    RIVULET_RETURN_IF_ERROR(WritePages(*child, below, folder, pages));
  }
  return absl::OkStatus();
}

struct ManualOptions {
  std::string out;
  std::optional<int64_t> section;
};

// man(1)'s section number for files.
constexpr int64_t kFormats = 5;

Status WriteManual(const ManualOptions& options) {
  if (options.section && *options.section != 1 && *options.section != kFormats)
    return UsageError("--section is 1 or {}, not {}", kFormats, *options.section);
  RIVULET_ASSIGN_OR_RETURN(const auto folder, NewFolder::Create(FileSystem::Default(), options.out));
  if (options.section == kFormats) {
    RIVULET_RETURN_IF_ERROR(
        WriteFileAtomically(FileSystem::Default(), JoinPath(options.out, "rivulet-scenario.5"), ScenarioManualPage()));
    fmt::print("{}: 1 page\n", options.out);
    return absl::OkStatus();
  }
  RootArguments arguments;
  const Command root = RootCommand(&arguments);
  int pages = 0;
  RIVULET_RETURN_IF_ERROR(WritePages(root, root.name, options.out, pages));
  RIVULET_RETURN_IF_ERROR(WritePages(ClientRoot(&arguments), kClientProgram, options.out, pages));
  fmt::print("{}: {} pages\n", options.out, pages);
  return absl::OkStatus();
}

const RegisterCommand kManual(95, [] {
  auto options = std::make_shared<ManualOptions>();
  Command command{.name = "manual",
                  .summary = "Write man pages: of all commands, or rivulet-scenario(5) with all keys.",
                  .example =
                      "rivulet manual --out ~/.local/share/man/man1\n"
                      "  rivulet manual --section 5 --out ~/.local/share/man/man5"};
  command.Required("--out", "DIR", &options->out, "the folder to write to")
      .Option("--section", "N", &options->section, "1: a page of every command; 5: rivulet-scenario [1]",
              {1, kFormats});
  command.run = [options] { return WriteManual(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
