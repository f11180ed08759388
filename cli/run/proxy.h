// The HTTP proxy that a site's network lets connections out by, as the environment of its processes says.
#pragma once

#include <string>

#include "rpc/credentials.h"

namespace rivulet {

// "http://[USER:PASSWORD@]HOST:PORT" of https_proxy or HTTPS_PROXY, by which `address` is to be reached; "": directly,
// as loopback always is, and what no_proxy (NO_PROXY) names: hosts, ends of hosts, or "*". INVALID_ARGUMENT: a proxy of
// another kind.
StatusOr<std::string> ProxyFor(const NetworkAddress& address);

}  // namespace rivulet
