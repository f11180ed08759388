#include "certificates/sign.h"

#include <openssl/objects.h>

#include <set>

namespace rivulet {
namespace {

// Ed25519 hashes by itself and takes no digest.
const EVP_MD* DigestFor(EVP_PKEY* key) {
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
}

Status AddExtension(X509* x509, int nid, const char* value, X509* issuer) {
  RIVULET_ASSIGN_OR_RETURN(const ExtensionHandle extension, MakeExtension(nid, value, issuer, x509));
  if (X509_add_ext(x509, extension.get(), -1) != 1) return OpenSslError("add an extension to a certificate");
  return absl::OkStatus();
}

// The fields of both kinds, except extensions, which need the public key, and the signature, which covers all.
StatusOr<X509Handle> Unsigned(EVP_PKEY* public_key, Validity validity, std::string_view common_name) {
  X509Handle x509(X509_new());
  RIVULET_ASSIGN_OR_RETURN(const std::string serial, RandomSerial());
  RIVULET_ASSIGN_OR_RETURN(const IntegerHandle number, SerialOf(serial));
  const TimeHandle from = TimeOf(validity.from), until = TimeOf(validity.until);
  if (from == nullptr || until == nullptr || X509_set_version(x509.get(), X509_VERSION_3) != 1 ||
      X509_set_serialNumber(x509.get(), number.get()) != 1 || X509_set1_notBefore(x509.get(), from.get()) != 1 ||
      X509_set1_notAfter(x509.get(), until.get()) != 1 || X509_set_pubkey(x509.get(), public_key) != 1) {
    return OpenSslError("make a certificate");
  }
  RIVULET_RETURN_IF_ERROR(SetCommonName(X509_get_subject_name(x509.get()), common_name));
  return x509;
}

StatusOr<GeneralNameHandle> UriName(const std::string& uri) {
  GeneralNameHandle name(GENERAL_NAME_new());
  ASN1_IA5STRING* text = ASN1_IA5STRING_new();
  if (name == nullptr || text == nullptr || ASN1_STRING_set(text, uri.data(), static_cast<int>(uri.size())) != 1)
    return OpenSslError("make a certificate's name");
  GENERAL_NAME_set0_value(name.get(), GEN_URI, text);
  return name;
}

StatusOr<GeneralNameHandle> HostName(const std::string& host) {
  GeneralNameHandle name(GENERAL_NAME_new());
  if (IsAddress(host)) {
    ASN1_OCTET_STRING* bytes = a2i_IPADDRESS(host.c_str());
    if (bytes == nullptr) return OpenSslError("make an address of '" + host + "'");
    GENERAL_NAME_set0_value(name.get(), GEN_IPADD, bytes);
    return name;
  }
  ASN1_IA5STRING* text = ASN1_IA5STRING_new();
  if (text == nullptr || ASN1_STRING_set(text, host.data(), static_cast<int>(host.size())) != 1)
    return OpenSslError("make a certificate's host");
  GENERAL_NAME_set0_value(name.get(), GEN_DNS, text);
  return name;
}

}  // namespace

Status CheckSubject(const Subject& subject) {
  if (ServesOthers(subject.name.role) && subject.hosts.empty()) {
    return InvalidArgument(
        "'{}' serves others, and its certificate has to name the hosts under which they reach it; add --host HOST",
        subject.name.ToString());
  }
  if (!ServesOthers(subject.name.role) && !subject.hosts.empty()) {
    return InvalidArgument("'{}' accepts no connections, so its certificate names no host; leave out '{}'",
                           subject.name.ToString(), subject.hosts.front());
  }
  for (const std::string& host : subject.hosts) RIVULET_RETURN_IF_ERROR(CheckHost(host));
  return absl::OkStatus();
}

Status SetCommonName(X509_NAME* name, std::string_view id) {
  constexpr size_t kMostCharacters = 64;
  size_t characters = 0, end = 0;
  for (; end < id.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(id[end]) & 0xC0) != 0x80;
    if (begins && characters++ == kMostCharacters) break;
  }
  if (X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(id.data()),
                                 static_cast<int>(end), -1, 0) != 1) {
    return OpenSslError("write a certificate's subject");
  }
  return absl::OkStatus();
}

StatusOr<ExtensionHandle> AlternativeNames(const Subject& subject) {
  const GeneralNamesHandle names(sk_GENERAL_NAME_new_null());
  const auto add = [&](StatusOr<GeneralNameHandle> name) -> Status {
    RIVULET_RETURN_IF_ERROR(name.status());
    if (sk_GENERAL_NAME_push(names.get(), name->get()) == 0) return OpenSslError("make a certificate's names");
    (void)name->release();  // owned by the list now
    return absl::OkStatus();
  };
  RIVULET_RETURN_IF_ERROR(add(UriName(subject.name.Uri())));
  std::set<std::string> seen;
  for (const std::string& host : subject.hosts)
    if (seen.insert(host).second) RIVULET_RETURN_IF_ERROR(add(HostName(host)));
  ExtensionHandle extension(X509V3_EXT_i2d(NID_subject_alt_name, 0, names.get()));
  if (extension == nullptr) return OpenSslError("make a certificate's names");
  return extension;
}

StatusOr<Certificate> SignAuthority(std::string_view authority_name, EVP_PKEY* key, Validity validity) {
  RIVULET_ASSIGN_OR_RETURN(X509Handle x509, Unsigned(key, validity, authority_name));
  if (X509_set_issuer_name(x509.get(), X509_get_subject_name(x509.get())) != 1) return OpenSslError("name an issuer");
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0", x509.get()));
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_key_usage, "critical,keyCertSign,cRLSign", x509.get()));
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_subject_key_identifier, "hash", x509.get()));
  if (X509_sign(x509.get(), key, DigestFor(key)) == 0) return OpenSslError("sign the authority's certificate");
  return CertificateOf(std::move(x509), "the new certificate");
}

StatusOr<Certificate> SignSubject(const Subject& subject, EVP_PKEY* public_key, Validity validity,
                                  const Certificate& authority, EVP_PKEY* authority_key) {
  RIVULET_RETURN_IF_ERROR(CheckSubject(subject));
  RIVULET_ASSIGN_OR_RETURN(X509Handle x509, Unsigned(public_key, validity, subject.name.id));
  if (X509_set_issuer_name(x509.get(), X509_get_subject_name(authority.x509.get())) != 1)
    return OpenSslError("name an issuer");
  const bool serves = ServesOthers(subject.name.role), connects = ConnectsToOthers(subject.name.role);
  const char* purposes = serves && connects ? "serverAuth,clientAuth" : serves ? "serverAuth" : "clientAuth";
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_basic_constraints, "critical,CA:FALSE", nullptr));
  // TLS 1.3 only signs with it and derives fresh keys: no certificate's key ever encrypts one.
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_key_usage, "critical,digitalSignature", nullptr));
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_ext_key_usage, purposes, nullptr));
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_subject_key_identifier, "hash", nullptr));
  RIVULET_RETURN_IF_ERROR(AddExtension(x509.get(), NID_authority_key_identifier, "keyid:always", authority.x509.get()));
  RIVULET_ASSIGN_OR_RETURN(const ExtensionHandle names, AlternativeNames(subject));
  if (X509_add_ext(x509.get(), names.get(), -1) != 1) return OpenSslError("add a certificate's names");
  if (X509_sign(x509.get(), authority_key, DigestFor(authority_key)) == 0) return OpenSslError("sign a certificate");
  return CertificateOf(std::move(x509), "the new certificate");
}

}  // namespace rivulet
