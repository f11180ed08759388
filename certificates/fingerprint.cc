#include "certificates/fingerprint.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

namespace rivulet {

StatusOr<Digest> FingerprintOf(const Certificate& certificate) {
  Digest digest;
  unsigned length = 0;
  if (X509_digest(certificate.x509.get(), EVP_sha256(), digest.bytes.data(), &length) != 1 ||
      length != digest.bytes.size()) {
    return Internal("OpenSSL gives no SHA-256 of the certificate '{}'", certificate.subject);
  }
  return digest;
}

}  // namespace rivulet
