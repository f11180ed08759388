// HTTP proxy for a site's outgoing connections, read from the environment.
#pragma once

#include <string>

#include "rpc/credentials.h"

namespace rivulet {

// The proxy "http://[USER:PASSWORD@]HOST:PORT" of https_proxy or HTTPS_PROXY for `address`. "": a direct connection,
// always for loopback, and for addresses in no_proxy (NO_PROXY): hosts, suffixes of hosts, or "*". INVALID_ARGUMENT: a
// proxy of another kind.
StatusOr<std::string> ProxyFor(const NetworkAddress& address);

}  // namespace rivulet
