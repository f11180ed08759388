#include "inspect/client_standing.h"

#include <fmt/format.h>

namespace rivulet {

std::string ClientStanding::Text() const {
  std::string text = status;
  if (!by.empty()) text += " by " + by;
  if (at.size() >= 10) text += " on " + at.substr(0, 10);
  if (!reason.empty()) text += ": " + reason;
  return text;
}

StatusOr<std::map<std::string, ClientStanding>> Standings(History& history) {
  std::map<std::string, ClientStanding> standings;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientRow> clients, history.DecidedClients());
  for (const ClientRow& client : clients) standings[client.client_id].status = client.status;
  if (standings.empty()) return standings;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditRow> audit, history.Audit());
  for (const AuditRow& row : audit) {
    const auto client = standings.find(row.client_id);
    if (row.client_id.empty() || client == standings.end()) continue;
    client->second.by = row.operator_id;
    client->second.at = row.at;
    client->second.reason = row.detail;
  }
  return standings;
}

StatusOr<ClientStanding> StandingOf(History& history, const std::string& client_id) {
  RIVULET_ASSIGN_OR_RETURN(const auto standings, Standings(history));
  const auto found = standings.find(client_id);
  return found == standings.end() ? ClientStanding() : found->second;
}

}  // namespace rivulet
