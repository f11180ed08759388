#include "federated/transport/all_clients.h"

#include <string>
#include <utility>

#include "engine/base/display_name.h"

namespace rivulet {
namespace {

size_t Bytes(const ClientState& c) {
  return sizeof(ClientState) + c.client_id.size() + c.detail.size() + c.error.size() + c.via.size() + c.task.size() +
         c.version.size() + c.run_id.size() + c.state.size() + c.doing.size() + c.serial.size();
}

}  // namespace

StatusOr<std::vector<ClientState>> AllClients(ControlApi& control, size_t most_bytes) {
  constexpr size_t kMostShown = 80;
  std::vector<ClientState> clients;
  std::string after;
  size_t bytes = 0;
  for (bool more = true; more;) {
    RIVULET_ASSIGN_OR_RETURN(ClientPage page, control.Clients({}, after));
    more = page.more && !page.clients.empty();
    for (ClientState& client : page.clients) {
      if (client.client_id <= after) {
        return DataLoss("the coordinator's list of clients is not in order: '{}' came after '{}'",
                        DisplayText(client.client_id, kMostShown), DisplayText(after, kMostShown));
      }
      bytes += Bytes(client);
      if (bytes > most_bytes) {
        return ResourceExhausted("the coordinator's list of clients has more than {} MB", most_bytes / 1'000'000);
      }
      after = client.client_id;
      clients.push_back(std::move(client));
    }
  }
  return clients;
}

}  // namespace rivulet
