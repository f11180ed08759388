// A version's record with the signature of the coordinator that made it, as a DSSE envelope
// (github.com/secure-systems-lab/dsse):
//
//   {"payloadType": "application/vnd.in-toto+json",
//    "payload": BASE64 of the record's text,
//    "signatures": [{"keyid": HEX, "sig": BASE64, "cert": PEM}]}
//
// The signature is ECDSA on P-256 with SHA-256, over "DSSEv1" and type and text with their lengths. "keyid" is the
// SHA-256 of the public key of the certificate in "cert". A reader needs the authority's certificate alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "certificates/certificate.h"
#include "certificates/openssl.h"
#include "engine/base/status.h"
#include "federated/records/version_record.h"

namespace rivulet::records {

struct SignedRecord {
  std::string text;  // of the record, as Write makes it
  VersionRecord record;
  Digest digest;            // of `text`
  std::string signature;    // DER; "": a simulation without an authority
  std::string certificate;  // PEM; "" without a signature
};

// The signature, in DER, of a record's text. INTERNAL: OpenSSL refuses.
StatusOr<std::string> SignatureOf(std::string_view text, EVP_PKEY* key);
// The envelope of a record that nobody signs.
std::string Unsigned(const VersionRecord& record);
// FAILED_PRECONDITION: the key is not of P-256. `certificate_pem` is of the key.
StatusOr<std::string> Sign(const VersionRecord& record, EVP_PKEY* key, std::string_view certificate_pem);
// The parts that a history keeps, checked as ReadSignedRecord checks them. INVALID_ARGUMENT: no record, a certificate
// that is none, or one of signature and certificate without the other.
StatusOr<SignedRecord> SignedRecordOf(std::string text, std::string signature, std::string certificate);
// The envelope of a record that was read.
StatusOr<std::string> EnvelopeOf(const SignedRecord& record);

// INVALID_ARGUMENT: no envelope of a record, with two signatures, or with a part that Sign does not make.
StatusOr<SignedRecord> ReadSignedRecord(std::string_view envelope);

// Whether the signature is by the key of the certificate beside it, whoever issued that; false without a signature.
bool IsSignedByItsCertificate(const SignedRecord& record);
// Whether the record was signed by a coordinator of `authority`, at a time at which its certificate was valid.
// PERMISSION_DENIED says what is wrong, and of which version: no signature, one by another key, a certificate of
// another authority or role. Revocation is not asked: a list tells when a key was revoked, and not what it signed
// before.
Status CheckSigned(const SignedRecord& record, const Certificate& authority);

}  // namespace rivulet::records
