// SHA-256 of a certificate in DER, as `openssl x509 -fingerprint -sha256` prints it.
#pragma once

#include "certificates/certificate.h"
#include "engine/base/sha256.h"

namespace rivulet {

StatusOr<Digest> FingerprintOf(const Certificate& certificate);

}  // namespace rivulet
