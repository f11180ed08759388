#include "federated/records/signed_record.h"

#include <utility>

#include "certificates/base64.h"
#include "certificates/key.h"
#include "certificates/signature.h"
#include "certificates/verify.h"
#include "engine/base/json.h"

namespace rivulet::records {
namespace {

constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";

// What is signed (DSSE's "pre-authentication encoding"): lengths keep type and text apart.
std::string SignedBytes(std::string_view text) {
  return fmt::format("DSSEv1 {} {} {} {}", kPayloadType.size(), kPayloadType, text.size(), text);
}

std::string Envelope(std::string_view text, Json signatures) {
  const Json envelope = {
      {"payloadType", kPayloadType}, {"payload", EncodeBase64(text)}, {"signatures", std::move(signatures)}};
  return envelope.Dump();
}

StatusOr<std::string> KeyId(EVP_PKEY* key) {
  RIVULET_ASSIGN_OR_RETURN(const std::string text, PublicKeyText(key));
  RIVULET_ASSIGN_OR_RETURN(const std::string der, DecodeBase64(text));
  return Sha256Of(der).Hex();
}

// The one envelope of these parts.
StatusOr<std::string> SignedEnvelope(std::string_view text, EVP_PKEY* key, std::string_view signature,
                                     std::string_view certificate) {
  RIVULET_ASSIGN_OR_RETURN(const std::string id, KeyId(key));
  Json signatures = Json::Array();
  signatures.Append({{"keyid", id}, {"sig", EncodeBase64(signature)}, {"cert", certificate}});
  return Envelope(text, std::move(signatures));
}

}  // namespace

StatusOr<std::string> SignatureOf(std::string_view text, EVP_PKEY* key) { return SignBytes(key, SignedBytes(text)); }

StatusOr<std::string> EnvelopeOf(const SignedRecord& record) {
  if (record.signature.empty()) return Unsigned(record.record);
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           ReadCertificate(record.certificate, "the certificate of a version's record"));
  // One text a certificate, as there is one of a record.
  if (certificate.Pem() != record.certificate) {
    return InvalidArgument("the certificate of version {} of run '{}' has characters that no certificate in PEM has",
                           record.record.version, record.record.run);
  }
  return SignedEnvelope(record.text, X509_get0_pubkey(certificate.x509.get()), record.signature, record.certificate);
}

StatusOr<SignedRecord> SignedRecordOf(std::string text, std::string signature, std::string certificate) {
  SignedRecord read = {
      .text = std::move(text), .signature = std::move(signature), .certificate = std::move(certificate)};
  RIVULET_ASSIGN_OR_RETURN(read.record, ReadVersionRecord(read.text));
  read.digest = DigestOf(read.text);
  if (read.signature.empty() != read.certificate.empty()) {
    return InvalidArgument(
        "the record of version {} of run '{}' has one of signature and certificate without the other",
        read.record.version, read.record.run);
  }
  RIVULET_RETURN_IF_ERROR(EnvelopeOf(read).status());
  return read;
}

std::string Unsigned(const VersionRecord& record) { return Envelope(Write(record), Json::Array()); }

StatusOr<std::string> Sign(const VersionRecord& record, EVP_PKEY* key, std::string_view certificate_pem) {
  RIVULET_RETURN_IF_ERROR(CheckSigningKey(key, record.run));
  const std::string text = Write(record);
  RIVULET_ASSIGN_OR_RETURN(const std::string signature, SignatureOf(text, key));
  return SignedEnvelope(text, key, signature, certificate_pem);
}

StatusOr<SignedRecord> ReadSignedRecord(std::string_view envelope) {
  const StatusOr<Json> parsed = Json::Parse(envelope);
  if (!parsed.ok()) return Annotate(parsed.status(), "the envelope of a version's record");
  const Json& json = *parsed;
  const auto bytes_of = [](const Json& object, const char* name) -> StatusOr<std::string> {
    StatusOr<std::string> bytes = DecodeBase64(object.At(name).text());
    if (!bytes.ok()) return Annotate(bytes.status(), fmt::format("the \"{}\" of a version's record", name));
    return bytes;
  };
  RIVULET_ASSIGN_OR_RETURN(std::string text, bytes_of(json, "payload"));
  std::string signature, pem;
  const Json& signatures = json.At("signatures");
  if (signatures.size() > 0) {
    if (!signatures.IsArray() || signatures.size() != 1) return InvalidArgument("a record has one signature at most");
    const Json& one = signatures.elements()[0];
    RIVULET_ASSIGN_OR_RETURN(signature, bytes_of(one, "sig"));
    pem = one.At("cert").text();
    if (signature.empty()) return InvalidArgument("the \"sig\" of a version's record is empty");
  }
  RIVULET_ASSIGN_OR_RETURN(SignedRecord read, SignedRecordOf(std::move(text), std::move(signature), std::move(pem)));
  RIVULET_ASSIGN_OR_RETURN(const std::string again, EnvelopeOf(read));
  if (again != envelope) {
    return InvalidArgument("the envelope of version {} of run '{}' has fields or characters that no envelope has",
                           read.record.version, read.record.run);
  }
  return read;
}

bool IsSignedByItsCertificate(const SignedRecord& record) {
  const auto certificate = ReadCertificate(record.certificate, "a record's certificate");
  return certificate.ok() &&
         IsSignature(X509_get0_pubkey(certificate->x509.get()), SignedBytes(record.text), record.signature);
}

Status CheckSigned(const SignedRecord& record, const Certificate& authority) {
  const auto refuse = [&](std::string_view why) {
    return PermissionDenied("the record of version {} of run '{}' {}", record.record.version, record.record.run, why);
  };
  if (record.signature.empty()) return refuse("has no signature");
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(record.certificate, "its certificate"));
  const Status good =
      VerifyCertificate(certificate, authority, nullptr, CertificatePurpose::kServe, record.record.made_ms / 1000);
  if (!good.ok()) return refuse(fmt::format("has a certificate that does not count: {}", Message(good)));
  if (certificate.name->role != Role::kCoordinator) {
    return refuse(fmt::format("was signed by {}, which is no coordinator", certificate.subject));
  }
  if (!IsSignature(X509_get0_pubkey(certificate.x509.get()), SignedBytes(record.text), record.signature)) {
    return refuse("was changed after it was signed, or signed by another key");
  }
  return absl::OkStatus();
}

}  // namespace rivulet::records
