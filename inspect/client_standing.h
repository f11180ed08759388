// Admission status of a client in the history: an operator's decision, and its reason.
#pragma once

#include <map>
#include <string>

#include "coordinator/history/history.h"

namespace rivulet {

struct ClientStanding {
  std::string status = "active";  // active, approved, banned, removed
  std::string by, at, reason;     // of the newest decision; "" without one
  bool decided() const { return status != "active"; }
  std::string Text() const;  // "banned by alice on 2026-11-28: wrong scanner"
};

StatusOr<ClientStanding> StandingOf(History& history, const std::string& client_id);
// The standings of all clients with another status than "active".
StatusOr<std::map<std::string, ClientStanding>> Standings(History& history);

}  // namespace rivulet
