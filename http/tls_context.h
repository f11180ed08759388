// TLS 1.3 of an HTTP server: each handshake reads its certificate from its folder again.
#pragma once

#include <openssl/ssl.h>

#include "certificates/watched_identity.h"

namespace rivulet {

// False: OpenSSL refuses. `identity` must outlive the context. A client's certificate is requested, and checked by
// Admission at each request.
bool PrepareTls(SSL_CTX& context, WatchedIdentity* identity);

}  // namespace rivulet
