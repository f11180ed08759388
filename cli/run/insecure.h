// --insecure: plaintext, on this machine when said once, anywhere when said twice.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "federated/transport/credentials.h"

namespace rivulet {

void AddInsecure(Command& command, int* insecure);
// Usage errors: no --insecure at all, or an address beyond loopback with only one.
StatusOr<std::shared_ptr<const TransportCredentials>> CredentialsFor(int insecure, const NetworkAddress& address);

}  // namespace rivulet
