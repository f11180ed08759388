// The server behind HttpServer, by Boost.Beast. Its source is the one that includes Boost.
#pragma once

#include <memory>

#include "certificates/watched_identity.h"
#include "engine/base/status.h"
#include "http/admission.h"
#include "http/http_server.h"
#include "rpc/credentials.h"

namespace rivulet {

// Binds the port. `identity` null: plaintext. UNAVAILABLE: the port is taken. FAILED_PRECONDITION: TLS cannot be set
// up.
StatusOr<std::unique_ptr<HttpServer>> ListenByBeast(NetworkAddress address, const HttpLimits& limits,
                                                    std::unique_ptr<Admission> admission,
                                                    std::shared_ptr<WatchedIdentity> identity);

}  // namespace rivulet
