#include "certificates/role.h"

#include <fmt/format.h>

#include "engine/base/check.h"

namespace rivulet {
namespace {

std::vector<Role>& KnownRoles() {
  static std::vector<Role> roles = {Role::kClient, Role::kAggregator, Role::kOperator, Role::kCoordinator};
  return roles;
}

}  // namespace

RegisterRole::RegisterRole(const RoleSpec& spec) {
  for (const Role role : KnownRoles()) {
    RIVULET_CHECK(role->name != spec.name && role->formerly != spec.name, "the role '{}' is registered twice",
                  spec.name);
  }
  KnownRoles().emplace_back(spec);
}

const std::vector<Role>& Roles() { return KnownRoles(); }

std::string RoleNamesHelp() {
  std::string text;
  for (size_t i = 0; i < Roles().size(); ++i) {
    const Role role = Roles()[i];
    if (i > 0) text += i + 1 == Roles().size() ? " or " : ", ";
    text += fmt::format("{}/{}", role->name, role->named_by_host ? "HOST" : "ID");
  }
  return text;
}

}  // namespace rivulet
