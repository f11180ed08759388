#include "certificates/request.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "certificates/key.h"

namespace rivulet {

StatusOr<std::string> MakeRequest(const CertificateName& name, EVP_PKEY* key) {
  const RequestHandle request(X509_REQ_new());
  if (X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 || X509_REQ_set_pubkey(request.get(), key) != 1)
    return OpenSslError("make a request");
  RIVULET_RETURN_IF_ERROR(SetCommonName(X509_REQ_get_subject_name(request.get()), name.id));
  // Hosts are left out: the authority decides the hosts of a server.
  RIVULET_ASSIGN_OR_RETURN(ExtensionHandle names, AlternativeNames({.name = name}));
  const ExtensionsHandle extensions(sk_X509_EXTENSION_new_null());
  if (sk_X509_EXTENSION_push(extensions.get(), names.get()) == 0) return OpenSslError("make a request");
  (void)names.release();  // owned by the list now
  const EVP_MD* digest = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
  const BioHandle bio = EmptyBio();
  if (X509_REQ_add_extensions(request.get(), extensions.get()) != 1 || X509_REQ_sign(request.get(), key, digest) == 0 ||
      PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) {
    return OpenSslError("make a request");
  }
  return TextOf(bio.get());
}

StatusOr<CertificateRequest> ReadRequest(std::string_view pem, std::string_view where) {
  const RequestHandle request(PEM_read_bio_X509_REQ(BioOver(pem).get(), nullptr, nullptr, nullptr));
  KeyHandle key(request == nullptr ? nullptr : X509_REQ_get_pubkey(request.get()));
  ERR_clear_error();
  if (key == nullptr) {
    return InvalidArgument("'{}' holds no request for a certificate in PEM; 'rivulet ca request' makes one", where);
  }
  RIVULET_RETURN_IF_ERROR(CheckKey(key.get(), where));
  const bool proven = X509_REQ_verify(request.get(), key.get()) == 1;
  ERR_clear_error();
  if (!proven) {
    return InvalidArgument(
        "the request '{}' is not signed by its key; it was changed on its way, or its sender does not have the key",
        where);
  }
  CertificateRequest result{.public_key = std::move(key)};
  const ExtensionsHandle extensions(X509_REQ_get_extensions(request.get()));
  const GeneralNamesHandle names(
      extensions == nullptr
          ? nullptr
          : static_cast<GENERAL_NAMES*>(X509V3_get_d2i(extensions.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* text = name->d.uniformResourceIdentifier;
    const std::string_view uri(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                               static_cast<size_t>(ASN1_STRING_length(text)));
    if (!uri.starts_with("rivulet:")) continue;
    StatusOr<CertificateName> parsed = NameOfUri(uri);
    if (!parsed.ok()) return Annotate(parsed.status(), fmt::format("the request '{}'", where));
    if (result.name) return InvalidArgument("the request '{}' asks for two names; ask for one", where);
    result.name = *std::move(parsed);
  }
  ERR_clear_error();
  return result;
}

}  // namespace rivulet
