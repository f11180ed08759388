// Security options of a connection: certificates (--tls DIR), or plaintext (--insecure: given once on this machine,
// given twice anywhere).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "certificates/identity.h"
#include "certificates/name.h"
#include "cli/command.h"
#include "rpc/credentials.h"

namespace rivulet {

struct SecurityOptions {
  std::string tls;
  int insecure = 0;
};

void AddSecurityOptions(Command& command, SecurityOptions* options);
// " --tls DIR" or " --insecure", as given.
std::string ShellArguments(const SecurityOptions& options);

struct Security {
  std::shared_ptr<const TransportCredentials> credentials;
  std::string name;  // the id in the certificate; "" without
  // Present faults of the folder, a sentence each, for `rivulet status`; null without certificates.
  std::function<std::vector<std::string>()> warnings = nullptr;
  // Its present identity, by which secure aggregation proves keys; null without certificates.
  std::function<std::shared_ptr<const NodeIdentity>()> identity = nullptr;
};
// For a node of `role` that listens on `address`, or calls it. `tell` receives log messages: certificates that end soon
// or were replaced, refused callers; on any thread. Usage errors: neither of the two options or both, or an address
// beyond loopback with only one --insecure. Other errors are faults of the folder. The last valid revocation list is
// stored as `lists_beside`.revoked-DIGITS.crl (certificates/revocation_record.h); "": in memory alone, for a command
// that ends at once.
StatusOr<Security> SecurityOf(const SecurityOptions& options, Role role, const NetworkAddress& address,
                              const std::string& lists_beside, std::function<void(const std::string& sentence)> tell);

}  // namespace rivulet
