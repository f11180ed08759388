// HTTP proxy for a site's outgoing connections, read from the environment.
#pragma once

#include <string>

#include "rpc/credentials.h"

namespace rivulet {

// "http://[USER:PASSWORD@]HOST:PORT" of https_proxy or HTTPS_PROXY, by which `address` is to be reached; "": directly,
// as loopback always is, and what no_proxy (NO_PROXY) names: hosts, ends of hosts, or "*". INVALID_ARGUMENT: a proxy of
// another kind.
StatusOr<std::string> ProxyFor(const NetworkAddress& address);

}  // namespace rivulet
