#include "cli/run/insecure.h"

namespace rivulet {

void AddInsecure(Command& command, int* insecure) {
  command.CountedFlag("--insecure", insecure,
                      "speak plaintext: for this machine say it once, for a network you trust twice");
}

StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsFor(int insecure, const NetworkAddress& address) {
  if (insecure == 0) return UsageError("connections are plaintext in this version; say --insecure to accept that");
  auto credentials = InsecureCredentials(insecure >= 2);
  RIVULET_RETURN_IF_ERROR(AsUsageError(credentials->Check(address)));
  return credentials;
}

}  // namespace rivulet
