// Roles of a deployment's nodes: the first word of a certificate's name, and its rights. Four are built in; a library
// with another service registers its role.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rivulet {

struct RoleSpec {
  std::string_view name;           // "aggregator", in certificates and on the command line
  std::string_view text;           // "an aggregator", in sentences
  bool serves = false;             // others connect to it: its certificate names hosts
  bool connects = true;            // it connects to others
  bool named_by_host = false;      // its id is the first host under which others reach it
  std::string_view formerly = {};  // a former name, which is read and never written
};

// A known role. Cheap to copy.
class Role {
 public:
  static const Role kClient;       // trains
  static const Role kAggregator;   // sums its clients' updates for a coordinator, of which it is a client
  static const Role kOperator;     // steers runs; may neither poll nor submit
  static const Role kCoordinator;  // runs rounds; its id is the first host under which clients reach it

  // `spec` must live as long as the program.
  constexpr explicit Role(const RoleSpec& spec) : spec_(&spec) {}
  constexpr const RoleSpec* operator->() const { return spec_; }
  bool operator==(const Role&) const = default;

 private:
  const RoleSpec* spec_;
};

namespace roles {
inline constexpr RoleSpec kClient{.name = "client", .text = "a client"};
inline constexpr RoleSpec kAggregator{
    .name = "aggregator", .text = "an aggregator", .serves = true, .formerly = "tier"};
inline constexpr RoleSpec kOperator{.name = "operator", .text = "an operator"};
inline constexpr RoleSpec kCoordinator{
    .name = "coordinator", .text = "a coordinator", .serves = true, .connects = false, .named_by_host = true};
}  // namespace roles
inline constexpr Role Role::kClient{roles::kClient};
inline constexpr Role Role::kAggregator{roles::kAggregator};
inline constexpr Role Role::kOperator{roles::kOperator};
inline constexpr Role Role::kCoordinator{roles::kCoordinator};

// Adds a role at start-up: `const RegisterRole kServe(kServeSpec);`. Ends the program if its name is taken.
struct RegisterRole {
  explicit RegisterRole(const RoleSpec& spec);
};
// The built-in roles and the registered ones, in that order.
const std::vector<Role>& Roles();
// "client/ID, aggregator/ID, operator/ID or coordinator/HOST".
std::string RoleNamesHelp();

inline bool ServesOthers(Role role) { return role->serves; }
inline bool ConnectsToOthers(Role role) { return role->connects; }

}  // namespace rivulet
