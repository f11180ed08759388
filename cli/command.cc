#include "cli/command.h"

#include <algorithm>

namespace rivulet {
namespace {

struct Registration {
  int order;
  Command (*make)();
};

std::vector<Registration>& Registrations() {
  static std::vector<Registration> registrations;
  return registrations;
}

}  // namespace

Command& Command::Positional(std::string value_name, std::string* target, std::string help) {
  arguments.push_back({.name = std::move(value_name), .target = target, .help = std::move(help), .required = true});
  return *this;
}
Command& Command::Positional(std::string value_name, std::vector<std::string>* target, std::string help) {
  arguments.push_back({.name = std::move(value_name), .target = target, .help = std::move(help), .required = true});
  return *this;
}
Command& Command::OptionalPositional(std::string value_name, std::string* target, std::string help) {
  arguments.push_back({.name = std::move(value_name), .target = target, .help = std::move(help)});
  return *this;
}
Command& Command::Flag(std::string flag, bool* target, std::string help) {
  arguments.push_back({.name = std::move(flag), .target = target, .help = std::move(help)});
  return *this;
}
Command& Command::CountedFlag(std::string flag, int* target, std::string help) {
  arguments.push_back({.name = std::move(flag), .target = target, .help = std::move(help)});
  return *this;
}
Command& Command::Option(std::string flag, std::string value_name, std::string* target, std::string help) {
  arguments.push_back(
      {.name = std::move(flag), .value_name = std::move(value_name), .target = target, .help = std::move(help)});
  return *this;
}
Command& Command::Option(std::string flag, std::string value_name, std::optional<int64_t>* target, std::string help,
                         IntRange range) {
  arguments.push_back({.name = std::move(flag),
                       .value_name = std::move(value_name),
                       .target = target,
                       .help = std::move(help),
                       .range = range});
  return *this;
}
Command& Command::Required(std::string flag, std::string value_name, std::string* target, std::string help) {
  Option(std::move(flag), std::move(value_name), target, std::move(help));
  arguments.back().required = true;
  return *this;
}
Command& Command::Required(std::string flag, std::string value_name, std::optional<int64_t>* target, std::string help,
                           IntRange range) {
  Option(std::move(flag), std::move(value_name), target, std::move(help), range);
  arguments.back().required = true;
  return *this;
}
Command& Command::Repeated(std::string flag, std::string value_name, std::vector<std::string>* target,
                           std::string help) {
  arguments.push_back(
      {.name = std::move(flag), .value_name = std::move(value_name), .target = target, .help = std::move(help)});
  return *this;
}

Command& Command::Formerly(std::string flag) {
  arguments.back().formerly = std::move(flag);
  return *this;
}

RegisterCommand::RegisterCommand(int order, Command (*make)()) { Registrations().push_back({order, make}); }

std::vector<Command> RegisteredCommands() {
  std::vector<std::pair<int, Command>> ordered;
  for (const Registration& registration : Registrations()) {
    ordered.emplace_back(registration.order, registration.make());
  }
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second.name < b.second.name;
  });
  std::vector<Command> commands;
  for (auto& [order, command] : ordered) commands.push_back(std::move(command));
  return commands;
}

}  // namespace rivulet
