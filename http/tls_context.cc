#include "http/tls_context.h"

#include <openssl/pem.h>

#include "certificates/openssl.h"

namespace rivulet {
namespace {

int ShowCertificate(SSL* ssl, void* identity) {
  const std::shared_ptr<const NodeIdentity> now = static_cast<WatchedIdentity*>(identity)->Current();
  BioHandle certificate = BioOver(now->certificate_pem), key = BioOver(now->key_pem);
  X509Handle x509(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  KeyHandle private_key(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  return x509 != nullptr && private_key != nullptr && SSL_use_certificate(ssl, x509.get()) == 1 &&
         SSL_use_PrivateKey(ssl, private_key.get()) == 1;
}

// The role is checked at every request; the handshake accepts any certificate, or none.
int TakeAnyCertificate(int, X509_STORE_CTX*) { return 1; }

}  // namespace

bool PrepareTls(SSL_CTX& context, WatchedIdentity* identity) {
  SSL_CTX_set_cert_cb(&context, ShowCertificate, identity);
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, TakeAnyCertificate);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
  return SSL_CTX_set_min_proto_version(&context, TLS1_3_VERSION) == 1;
}

}  // namespace rivulet
