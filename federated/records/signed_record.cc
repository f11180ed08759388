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

std::string Unsigned(const VersionRecord& record) { return Envelope(Write(record), Json::Array()); }

StatusOr<std::string> Sign(const VersionRecord& record, EVP_PKEY* key, std::string_view certificate_pem) {
  RIVULET_RETURN_IF_ERROR(CheckSigningKey(key, record.run));
  const std::string text = Write(record);
  RIVULET_ASSIGN_OR_RETURN(const std::string signature, SignBytes(key, SignedBytes(text)));
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
  SignedRecord read;
  RIVULET_ASSIGN_OR_RETURN(read.text, bytes_of(json, "payload"));
  RIVULET_ASSIGN_OR_RETURN(read.record, ReadVersionRecord(read.text));
  read.digest = DigestOf(read.text);
  const Json& signatures = json.At("signatures");
  std::string again = Unsigned(read.record);
  if (signatures.size() > 0) {
    if (!signatures.IsArray() || signatures.size() != 1) return InvalidArgument("a record has one signature at most");
    const Json& one = signatures.elements()[0];
    RIVULET_ASSIGN_OR_RETURN(read.signature, bytes_of(one, "sig"));
    read.certificate = one.At("cert").text();
    RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                             ReadCertificate(read.certificate, "the \"cert\" of a record"));
    RIVULET_ASSIGN_OR_RETURN(
        again, SignedEnvelope(read.text, X509_get0_pubkey(certificate.x509.get()), read.signature, read.certificate));
  }
  if (again != envelope) {
    return InvalidArgument("the envelope of version {} of run '{}' has fields or characters that no envelope has",
                           read.record.version, read.record.run);
  }
  return read;
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
