#include "cli/operate/operate.h"

#include <algorithm>

#include "cli/run/proxy.h"
#include "engine/base/clock.h"
#include "engine/base/quantities.h"
#include "federated/transport/grpc_control.h"

namespace rivulet {

void AddOperatorOptions(Command& command, OperatorOptions* options) {
  command.Option("--coordinator", "HOST:PORT", &options->coordinator, "the running coordinator's address");
  command.Option("--tls", "DIR", &options->security.tls,
                 "folder with the operator's certificate and CA (made by `rivulet ca issue operator/ID`)");
  command.CountedFlag("--insecure", &options->security.insecure, "use plaintext, to a coordinator on this machine");
}

StatusOr<std::unique_ptr<ControlApi>> ConnectAsOperator(const OperatorOptions& options) {
  if (options.coordinator.empty())
    return UsageError("the coordinator's address is missing; give --coordinator HOST:PORT");
  StatusOr<NetworkAddress> address = ParseAddress(options.coordinator);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--coordinator"));
  RIVULET_ASSIGN_OR_RETURN(Security security,
                           SecurityOf(options.security, Role::kOperator, *address, "", [](const std::string& sentence) {
                             fmt::print(stderr, "{}\n", OneLine(sentence));
                           }));
  StatusOr<std::string> proxy = ProxyFor(*address);
  if (!proxy.ok()) return AsUsageError(proxy.status());
  auto control = ConnectControl(
      {.coordinator = *address, .credentials = std::move(security.credentials), .proxy = *std::move(proxy)});
  if (!control.ok() && !absl::IsResourceExhausted(control.status()))
    return AsUsageError(Annotate(control.status(), "--coordinator"));
  return control;
}

std::string AgoText(int64_t unix_ms) {
  if (unix_ms == 0) return "";
  const int64_t ago = std::max<int64_t>(Clock::System().UnixMs() - unix_ms, 0);
  return SecondsText(static_cast<double>(ago / 1000)) + " ago";
}

}  // namespace rivulet
