#include "certificates/key.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/pem.h>

#include <array>

#include "certificates/base64.h"

namespace rivulet {
namespace {

// Without this OpenSSL would ask on the terminal, and a service would wait there forever.
int RefusePassword(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::string CurveOf(EVP_PKEY* key) {
  std::array<char, 64> name{};
  size_t size = 0;
  if (EVP_PKEY_get_group_name(key, name.data(), name.size(), &size) != 1) return "";
  const char* nist = EC_curve_nid2nist(OBJ_sn2nid(name.data()));
  return nist == nullptr ? std::string(name.data(), size) : nist;
}

}  // namespace

StatusOr<KeyHandle> MakeKey() {
  KeyHandle key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("make a key");
  return key;
}

StatusOr<std::string> KeyPem(EVP_PKEY* key) {
  const BioHandle bio = EmptyBio();
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return OpenSslError("write a key");
  return TextOf(bio.get());
}

StatusOr<KeyHandle> ReadKey(std::string_view pem, std::string_view where) {
  bool asked = false;
  KeyHandle key(PEM_read_bio_PrivateKey(BioOver(pem).get(), nullptr, RefusePassword, &asked));
  ERR_clear_error();
  if (asked) {
    return InvalidArgument(
        "the key in '{}' is encrypted, and a service cannot ask for its password; decrypt it with 'openssl pkey' and "
        "protect it by the file's mode",
        where);
  }
  if (key == nullptr) return InvalidArgument("'{}' holds no private key in PEM; give the .key file", where);
  RIVULET_RETURN_IF_ERROR(CheckKey(key.get(), where));
  return key;
}

Status CheckKey(EVP_PKEY* key, std::string_view where) {
  const int kind = EVP_PKEY_get_base_id(key);
  const bool known =
      kind == EVP_PKEY_ED25519 || kind == EVP_PKEY_RSA || (kind == EVP_PKEY_EC && CurveOf(key).starts_with("P-"));
  if (known && EVP_PKEY_get_security_bits(key) >= 112) return absl::OkStatus();
  return InvalidArgument("the key in '{}' ({}) is not accepted; make one of EC P-256, Ed25519 or RSA with 2048 bits",
                         where, KeyText(key));
}

std::string KeyText(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_EC:
      return "EC " + CurveOf(key);
    case EVP_PKEY_RSA:
      return fmt::format("RSA {}", EVP_PKEY_get_bits(key));
    case EVP_PKEY_ED25519:
      return "Ed25519";
    default: {
      const char* name = EVP_PKEY_get0_type_name(key);
      return fmt::format("{} {}", name == nullptr ? "unknown" : name, EVP_PKEY_get_bits(key));
    }
  }
}

StatusOr<std::string> PublicKeyText(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return OpenSslError("write a public key");
  std::string text = EncodeBase64({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  OPENSSL_free(der);
  return text;
}

StatusOr<KeyHandle> PublicKeyOf(std::string_view text) {
  const std::string der = DecodeBase64(text).value_or("");
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  KeyHandle key(der.empty() ? nullptr : d2i_PUBKEY(nullptr, &bytes, std::ssize(der)));
  ERR_clear_error();
  if (key == nullptr) return InvalidArgument("'{}' is not a public key in base64", text.substr(0, 80));
  return key;
}

bool SameKeyPair(EVP_PKEY* a, EVP_PKEY* b) {
  const bool equal = EVP_PKEY_eq(a, b) == 1;
  ERR_clear_error();
  if (equal || EVP_PKEY_get_base_id(a) != EVP_PKEY_RSA || EVP_PKEY_get_base_id(b) != EVP_PKEY_RSA) return equal;
  // A known pair of exponents of a modulus reveals its factors.
  BIGNUM *of_a = nullptr, *of_b = nullptr;
  EVP_PKEY_get_bn_param(a, OSSL_PKEY_PARAM_RSA_N, &of_a);
  EVP_PKEY_get_bn_param(b, OSSL_PKEY_PARAM_RSA_N, &of_b);
  const BigNumberHandle modulus_a(of_a), modulus_b(of_b);
  ERR_clear_error();
  return of_a != nullptr && of_b != nullptr && BN_cmp(of_a, of_b) == 0;
}

}  // namespace rivulet
