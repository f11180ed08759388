#include "certificates/openssl.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace rivulet {

Status OpenSslError(std::string_view what) {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return Internal("cannot {}: {}", what, reason == nullptr ? "OpenSSL gives no reason" : reason);
}

BioHandle EmptyBio() { return BioHandle(BIO_new(BIO_s_mem())); }

BioHandle BioOver(std::string_view bytes) {
  return BioHandle(BIO_new_mem_buf(bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX))));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(std::max(size, 0L)));
}

int64_t SecondsOf(const ASN1_TIME* time) {
  std::tm parts{};
  return time != nullptr && ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

TimeHandle TimeOf(int64_t seconds) { return TimeHandle(ASN1_TIME_set(nullptr, static_cast<time_t>(seconds))); }

std::string SerialText(const ASN1_INTEGER* serial) {
  const int size = ASN1_STRING_length(serial);
  const unsigned char* bytes = ASN1_STRING_get0_data(serial);
  std::string text;
  for (int i = 0; i < size; ++i) text += fmt::format("{:02X}", bytes[i]);
  return text;
}

StatusOr<IntegerHandle> SerialOf(std::string_view text) {
  const bool digits = text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  if (!digits || text.size() < 2 || text.size() > 40)
    return InvalidArgument("'{}' is not a serial number; it has 2 to 40 hexadecimal digits", text.substr(0, 80));
  BIGNUM* number = nullptr;
  if (BN_hex2bn(&number, std::string(text).c_str()) == 0) return OpenSslError("read a serial number");
  const BigNumberHandle owner(number);
  IntegerHandle serial(BN_to_ASN1_INTEGER(number, nullptr));
  if (serial == nullptr) return OpenSslError("read a serial number");
  return serial;
}

StatusOr<std::string> RandomSerial() {
  std::array<unsigned char, 16> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return OpenSslError("draw a serial number");
  // A leading zero byte would be omitted, and the number would be shorter than all others.
  if (bytes[0] == 0) bytes[0] = 1;
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02X}", byte);
  return text;
}

StatusOr<ExtensionHandle> MakeExtension(int nid, const char* value, X509* issuer, X509* subject) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  ExtensionHandle extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  if (extension == nullptr) return OpenSslError(fmt::format("make the extension {}", OBJ_nid2sn(nid)));
  return extension;
}

}  // namespace rivulet
