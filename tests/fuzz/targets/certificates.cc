// What nodes show each other and an authority is sent: certificates, keys, requests, lists of what is revoked, and the
// names in them.
#include <openssl/bio.h>
#include <openssl/pem.h>

#include <cstdlib>

#include "certificates/author.h"
#include "certificates/index.h"
#include "certificates/key.h"
#include "certificates/request.h"
#include "certificates/role.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr int64_t kNow = 1'790'000'000;

// Ed25519 by 32 bytes, whose signatures are no matter of chance: the same seeds in every process.
EVP_PKEY* TestKey() {
  static const KeyHandle key(EVP_PKEY_new_raw_private_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>("a key that signs nothing of worth"), 32));
  return key.get();
}

const Certificate& TestAuthority() {
  static const Certificate authority = *SignAuthority("Heart study", TestKey(), {kNow, kNow + kSecondsPerDay});
  return authority;
}

Subject AggregatorSubject() {
  return {.name = {Role::kAggregator, "ward 7"}, .hosts = {"aggregator.example.org", "192.0.2.7", "2001:db8::7"}};
}

std::string SomeCertificate() {
  return SignSubject(AggregatorSubject(), TestKey(), {kNow, kNow + kSecondsPerDay}, TestAuthority(), TestKey())->Pem();
}

std::string SomeRevocationList() {
  const Revocations revoked = {{"4F00A1", {kNow, RevocationReason::kKeyCompromise}}, {"51", {kNow + 1}}};
  return *SignRevocationList(revoked, kNow, 7, TestAuthority(), TestKey());
}

// The bytes within the base64 of PEM, and back: a change of one character there moves bits of two bytes at once, and a
// search that has to find whole fields through it gets nowhere.
std::string DerOf(const std::string& pem) {
  const BioHandle bio = BioOver(pem);
  char *name = nullptr, *header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  if (PEM_read_bio(bio.get(), &name, &header, &data, &size) != 1) std::abort();
  std::string der(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(data);
  return der;
}

std::string PemOf(const char* what, std::string_view der) {
  if (der.empty()) return "";
  const BioHandle bio = EmptyBio();
  const auto* const data = reinterpret_cast<const unsigned char*>(der.data());
  if (PEM_write_bio(bio.get(), what, "", data, static_cast<long>(der.size())) <= 0) std::abort();
  return TextOf(bio.get());
}

// A certificate that is taken has what others go by in a form of which there is but one.
bool ReadsCertificate(std::string_view pem) {
  const auto certificate = ReadCertificate(pem, "bytes");
  if (!certificate.ok()) return false;
  if (certificate->name && !NameOfUri(certificate->name->Uri()).ok()) std::abort();
  ExpiryText(certificate->validity, kNow);
  return ReadCertificate(certificate->Pem(), "bytes").ok();
}

const Registered certificate{{"certificate", ReadsCertificate, [] {
                                return std::vector{SomeCertificate(), TestAuthority().Pem()};
                              }}};

const Registered certificate_der{{"certificate_der",
                                  [](std::string_view bytes) { return ReadsCertificate(PemOf("CERTIFICATE", bytes)); },
                                  [] {
                                    return std::vector{DerOf(SomeCertificate()), DerOf(TestAuthority().Pem())};
                                  }}};

const Registered request{{"certificate_request", [](std::string_view bytes) { return ReadRequest(bytes, "r").ok(); },
                          [] { return std::vector{*MakeRequest(AggregatorSubject().name, TestKey())}; }}};

const Registered request_der{
    {"certificate_request_der",
     [](std::string_view bytes) { return ReadRequest(PemOf("CERTIFICATE REQUEST", bytes), "r").ok(); },
     [] { return std::vector{DerOf(*MakeRequest(AggregatorSubject().name, TestKey()))}; }}};

const Registered key{{"private_key", [](std::string_view bytes) { return ReadKey(bytes, "k").ok(); },
                      [] { return std::vector{*KeyPem(TestKey())}; }}};

const Registered public_key{{"public_key", [](std::string_view bytes) { return PublicKeyOf(bytes).ok(); },
                             [] { return std::vector{*PublicKeyText(TestKey())}; }}};

const Registered revoked{{"revocation_list",
                          [](std::string_view bytes) { return ReadRevocationList(bytes, "l", TestAuthority()).ok(); },
                          [] { return std::vector{SomeRevocationList()}; }}};

const Registered revoked_der{
    {"revocation_list_der",
     [](std::string_view bytes) { return ReadRevocationList(PemOf("X509 CRL", bytes), "l", TestAuthority()).ok(); },
     [] { return std::vector{DerOf(SomeRevocationList())}; }}};

// `text` with the present names of roles in the place of their earlier ones, which are read and never written.
std::string WithPresentRoles(std::string_view text) {
  std::string present(text);
  for (const Role role : Roles()) {
    if (role->formerly.empty()) continue;
    const std::string earlier = fmt::format("{}/", role->formerly), now = fmt::format("{}/", role->name);
    for (size_t at = present.find(earlier); at != present.npos; at = present.find(earlier, at + now.size()))
      present.replace(at, earlier.size(), now);
  }
  return present;
}

// Two texts are never one name, whichever way it is written, save that a role may have its earlier name.
bool ReadsName(std::string_view bytes) {
  const auto by_uri = NameOfUri(bytes), by_text = ParseCertificateName(bytes);
  if (by_uri.ok() && (WithPresentRoles(by_uri->Uri()) != WithPresentRoles(bytes) ||
                      *ParseCertificateName(by_uri->ToString()) != *by_uri))
    std::abort();
  if (by_text.ok() &&
      (WithPresentRoles(by_text->ToString()) != WithPresentRoles(bytes) || *NameOfUri(by_text->Uri()) != *by_text))
    std::abort();
  ParseAuthor(bytes).IgnoreError();
  if (CheckHost(bytes).ok() && bytes.find('\0') != bytes.npos) std::abort();
  return by_uri.ok() || by_text.ok();
}

const Registered name{{"certificate_name", ReadsName, [] {
                         return std::vector{AggregatorSubject().name.Uri(), AggregatorSubject().name.ToString(),
                                            std::string("coordinator/fl.example.org")};
                       }}};

// What is taken is what would be written of it, save for a role's earlier name: a line that somebody changed is found
// by that.
const Registered index_text{{"certificate_index",
                             [](std::string_view bytes) {
                               const auto rows = ParseIndex(bytes, "i");
                               if (!rows.ok()) return false;
                               if (WithPresentRoles(IndexText(*rows)) != WithPresentRoles(bytes)) std::abort();
                               return true;
                             },
                             [] {
                               const IndexRow valid = {.serial = "4F00A1",
                                                       .subject = AggregatorSubject(),
                                                       .validity = {kNow, kNow + kSecondsPerDay},
                                                       .public_key = *PublicKeyText(TestKey())};
                               IndexRow revoked = valid;
                               revoked.revocation = {kNow, RevocationReason::kCessation};
                               return std::vector{IndexText({valid, revoked})};
                             }}};

}  // namespace
}  // namespace rivulet::fuzz
