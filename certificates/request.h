// A certificate request (PKCS #10), made where the key is and stays. It proves possession of the key; the authority
// decides the name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "certificates/sign.h"

namespace rivulet {

// In PEM, with the name as the certificate's future alternative name.
StatusOr<std::string> MakeRequest(const CertificateName& name, EVP_PKEY* key);

struct CertificateRequest {
  KeyHandle public_key;
  std::optional<CertificateName> name;  // nullopt: made by another program, without names of this system
};
// INVALID_ARGUMENT, naming `where`: no request, a signature by another key, a key that CheckKey refuses, or a malformed
// name.
StatusOr<CertificateRequest> ReadRequest(std::string_view pem, std::string_view where);

}  // namespace rivulet
