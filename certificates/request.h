// A certificate request (PKCS #10), made where the key is and stays. It proves possession of the key; the authority
// decides the name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "certificates/sign.h"

namespace rivulet {

// In PEM, with the name as the alternative name that the certificate will have.
StatusOr<std::string> MakeRequest(const CertificateName& name, EVP_PKEY* key);

struct CertificateRequest {
  KeyHandle public_key;
  std::optional<CertificateName> name;  // none: made by another program, which knows no such names
};
// INVALID_ARGUMENT, naming `where`: no request, a signature that is not its key's, a key that CheckKey refuses, a name
// that is malformed.
StatusOr<CertificateRequest> ReadRequest(std::string_view pem, std::string_view where);

}  // namespace rivulet
