// Owning handles of OpenSSL objects, and its errors as sentences. One of these handles owns every OpenSSL object of
// this folder; nothing else here frees anything.
#pragma once

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

template <auto kFree>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <typename T, auto kFree>
using OpenSslHandle = std::unique_ptr<T, OpenSslFree<kFree>>;

using KeyHandle = OpenSslHandle<EVP_PKEY, EVP_PKEY_free>;
using X509Handle = OpenSslHandle<X509, X509_free>;
using RequestHandle = OpenSslHandle<X509_REQ, X509_REQ_free>;
using CrlHandle = OpenSslHandle<X509_CRL, X509_CRL_free>;
using RevokedHandle = OpenSslHandle<X509_REVOKED, X509_REVOKED_free>;
using ExtensionHandle = OpenSslHandle<X509_EXTENSION, X509_EXTENSION_free>;
using StoreHandle = OpenSslHandle<X509_STORE, X509_STORE_free>;
using StoreContextHandle = OpenSslHandle<X509_STORE_CTX, X509_STORE_CTX_free>;
using GeneralNameHandle = OpenSslHandle<GENERAL_NAME, GENERAL_NAME_free>;
using GeneralNamesHandle = OpenSslHandle<GENERAL_NAMES, GENERAL_NAMES_free>;
using IntegerHandle = OpenSslHandle<ASN1_INTEGER, ASN1_INTEGER_free>;
using EnumeratedHandle = OpenSslHandle<ASN1_ENUMERATED, ASN1_ENUMERATED_free>;
using TimeHandle = OpenSslHandle<ASN1_TIME, ASN1_TIME_free>;
using BigNumberHandle = OpenSslHandle<BIGNUM, BN_free>;
using BioHandle = OpenSslHandle<BIO, BIO_free_all>;

inline void FreeExtensions(STACK_OF(X509_EXTENSION) * extensions) {
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
}
using ExtensionsHandle = OpenSslHandle<STACK_OF(X509_EXTENSION), FreeExtensions>;

// INTERNAL: "cannot WHAT: " and OpenSSL's first error; empties its error queue.
Status OpenSslError(std::string_view what);

BioHandle EmptyBio();
BioHandle BioOver(std::string_view bytes);  // `bytes` must outlive it
std::string TextOf(BIO* bio);

// Seconds since 1970 UTC; 0 if OpenSSL cannot read the time.
int64_t SecondsOf(const ASN1_TIME* time);
TimeHandle TimeOf(int64_t seconds);

// Serial numbers as upper-case hexadecimal digits, two for each byte.
std::string SerialText(const ASN1_INTEGER* serial);
// INVALID_ARGUMENT unless `text` is 2 to 40 hexadecimal digits (RFC 5280: at most 20 bytes).
StatusOr<IntegerHandle> SerialOf(std::string_view text);
// 128 random bits.
StatusOr<std::string> RandomSerial();

// One extension of `nid`, from OpenSSL's notation of its value. Key identifiers are made from `issuer` and `subject`,
// which may be null.
StatusOr<ExtensionHandle> MakeExtension(int nid, const char* value, X509* issuer, X509* subject);

}  // namespace rivulet
