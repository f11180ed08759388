#include "certificates/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <ctime>

namespace rivulet {
namespace {

std::string FormattedTime(int64_t seconds, const char* format) {
  const auto time = static_cast<time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 40> text{};
  return std::string(text.data(), std::strftime(text.data(), text.size(), format, &parts));
}

std::string Days(int64_t days) { return fmt::format("{} {}", days, days == 1 ? "day" : "days"); }

std::string CommonName(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
  if (size < 0) return "";
  const std::string common_name(reinterpret_cast<char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return common_name;
}

std::string_view BytesOf(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<size_t>(ASN1_STRING_length(string))};
}

std::string AddressText(std::string_view bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* good = inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return good == nullptr || (bytes.size() != 4 && bytes.size() != 16) ? "" : good;
}

}  // namespace

int64_t DaysLeft(int64_t until, int64_t now) {
  const int64_t seconds = until - now;
  return seconds >= 0 ? (seconds + kSecondsPerDay - 1) / kSecondsPerDay : seconds / kSecondsPerDay;
}

std::string DayText(int64_t seconds) { return FormattedTime(seconds, "%Y-%m-%d"); }
std::string TimeText(int64_t seconds) { return FormattedTime(seconds, "%Y-%m-%dT%H:%M:%SZ"); }

std::string ExpiryText(Validity validity, int64_t now) {
  if (now < validity.from) return fmt::format("begins {}", TimeText(validity.from));
  const int64_t days = DaysLeft(validity.until, now);
  if (now <= validity.until) return fmt::format("{} left", Days(days));
  return days == 0 ? "expired today" : fmt::format("expired {} ago", Days(-days));
}

std::string Certificate::Pem() const {
  const BioHandle bio = EmptyBio();
  return PEM_write_bio_X509(bio.get(), x509.get()) == 1 ? TextOf(bio.get()) : "";
}

StatusOr<Certificate> CertificateOf(X509Handle x509, std::string_view where) {
  // OpenSSL reads a certificate whose key it cannot read: of another kind or curve, or for lack of memory.
  if (X509_get0_pubkey(x509.get()) == nullptr) {
    ERR_clear_error();
    return InvalidArgument("the certificate in '{}' has a key of a kind that is not known here; have one issued anew",
                           where);
  }
  Certificate certificate{.serial = SerialText(X509_get0_serialNumber(x509.get())),
                          .validity = {.from = SecondsOf(X509_get0_notBefore(x509.get())),
                                       .until = SecondsOf(X509_get0_notAfter(x509.get()))},
                          .subject = CommonName(X509_get_subject_name(x509.get())),
                          .authority = X509_check_ca(x509.get()) == 1};
  const GeneralNamesHandle names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x509.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) certificate.hosts.emplace_back(BytesOf(name->d.dNSName));
    if (name->type == GEN_IPADD) certificate.hosts.push_back(AddressText(BytesOf(name->d.iPAddress)));
    if (name->type != GEN_URI) continue;
    const std::string_view uri = BytesOf(name->d.uniformResourceIdentifier);
    if (!uri.starts_with("rivulet:")) continue;
    if (certificate.name)
      return InvalidArgument("the certificate in '{}' speaks for two names; it has to be one", where);
    StatusOr<CertificateName> parsed = NameOfUri(uri);
    if (!parsed.ok()) return Annotate(parsed.status(), fmt::format("the certificate in '{}'", where));
    certificate.name = *std::move(parsed);
  }
  certificate.x509 = std::move(x509);
  ERR_clear_error();
  return certificate;
}

StatusOr<Certificate> ReadCertificate(std::string_view pem, std::string_view where) {
  X509Handle x509(PEM_read_bio_X509(BioOver(pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (x509 == nullptr) return InvalidArgument("'{}' holds no certificate in PEM; give the .crt file", where);
  return CertificateOf(std::move(x509), where);
}

}  // namespace rivulet
