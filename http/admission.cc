#include "http/admission.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>

#include "certificates/openssl.h"
#include "engine/base/file_system.h"
#include "http/same_origin.h"

namespace rivulet {
namespace {

constexpr size_t kLeastToken = 16;
constexpr std::string_view kCookie = "rivulet_session";

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

StatusOr<std::string> NewSession() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return OpenSslError("draw a session");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

StatusOr<std::string> ReadToken(const std::string& file) {
  if (file.empty()) return std::string();
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(file));
  const std::string_view token = std::string_view(bytes).substr(0, bytes.find_first_of("\r\n"));
  if (token.size() < kLeastToken) {
    return FailedPrecondition(
        "the token in '{}' has {} characters, which can be guessed; give it {} or more, such as those of 'openssl rand "
        "-hex 32'",
        file, token.size(), kLeastToken);
  }
  return std::string(token);
}

// The session in cookies "a=b; c=d".
std::string SessionIn(const std::string& cookies) {
  for (size_t at = 0; at < cookies.size();) {
    const size_t end = std::min(cookies.find(';', at), cookies.size());
    const std::string_view one = std::string_view(cookies).substr(at, end - at);
    const size_t equals = one.find('=');
    if (equals != one.npos && one.substr(0, equals) == kCookie) return std::string(one.substr(equals + 1));
    at = end + 1;
    while (at < cookies.size() && cookies[at] == ' ') ++at;
  }
  return "";
}

}  // namespace

StatusOr<std::unique_ptr<Admission>> Admission::Create(NetworkAddress address, const std::string& token_file,
                                                       std::shared_ptr<WatchedIdentity> identity, Role readers) {
  RIVULET_ASSIGN_OR_RETURN(std::string token, ReadToken(token_file));
  RIVULET_ASSIGN_OR_RETURN(std::string session, NewSession());
  return std::unique_ptr<Admission>(
      new Admission(std::move(address), std::move(token), std::move(session), std::move(identity), readers));
}

// If another site pointed its host name here, its page could read this machine's data. So on loopback only our own
// names are answered. Elsewhere it would need a token or a certificate, which a browser sends to no other name.
bool Admission::IsOurName(const std::string& host) const {
  if (!address_.IsLoopback()) return true;
  const std::string name = host.substr(0, host.ends_with(']') ? host.size() : host.rfind(':'));
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]" || name == address_.host;
}

// The fault of the caller's certificate; "": it is a reader's.
std::string Admission::FaultOfReader(SSL* ssl) const {
  X509Handle peer(ssl == nullptr ? nullptr : SSL_get1_peer_certificate(ssl));
  if (peer == nullptr)
    return readers_ == Role::kOperator
               ? "Only operators may read this page, with a certificate of 'rivulet ca issue operator/NAME'."
               : fmt::format("Calls take a certificate of 'rivulet ca issue {}/NAME'.", readers_->name);
  BioHandle pem = EmptyBio();
  if (PEM_write_bio_X509(pem.get(), peer.get()) != 1) return "The certificate cannot be read.";
  const StatusOr<Certificate> certificate =
      VerifyPeer(TextOf(pem.get()), *identity_->Current(), CertificatePurpose::kConnect, identity_->now());
  if (!certificate.ok()) return std::string(Message(certificate.status()));
  const auto& name = certificate->name;
  if (!name || name->role != readers_)
    return fmt::format("This is for {}, and not for '{}'.",
                       readers_ == Role::kOperator ? "operators" : fmt::format("the role '{}'", readers_->name),
                       name ? name->ToString() : certificate->subject);
  return "";
}

std::optional<HttpRefusal> Admission::Check(const HttpCall& call) const {
  if (!call.of_program && call.method != "GET" && call.method != "HEAD")
    return HttpRefusal{405, "Not served", "Pages can only be read.", {{"Allow", "GET, HEAD"}}};
  if (!IsOurName(call.header("Host")))
    return HttpRefusal{403, "Not served", "This page answers to 127.0.0.1 and localhost alone."};
  if (token_.empty()) {
    const std::string fault = identity_ == nullptr ? "" : FaultOfReader(call.ssl);
    if (fault.empty()) return std::nullopt;
    return HttpRefusal{403, "Not served", fault};
  }
  if (SameSecret(SessionIn(call.header("Cookie")), session_)) return std::nullopt;
  const std::string bearer = call.header("Authorization");
  if (bearer.starts_with("Bearer ") && SameSecret(std::string_view(bearer).substr(7), token_)) return std::nullopt;
  const auto given = call.target.parameters.find("token");
  if (given != call.target.parameters.end() && SameSecret(given->second, token_)) {
    // The token leaves the address at once, and so the browser's history; a session replaces it.
    std::multimap<std::string, std::string> rest = call.target.parameters;
    rest.erase("token");
    return HttpRefusal{303,
                       "",
                       "",
                       {{"Location", SameOriginLocation(call.target.path, rest)},
                        {"Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/{}", kCookie, session_,
                                                   identity_ == nullptr ? "" : "; Secure")}}};
  }
  return HttpRefusal{401,
                     "Who is there?",
                     "Add ?token=…, or &token=… behind other parameters, to the address: the token of --http-token.",
                     {{"WWW-Authenticate", "Bearer"}}};
}

}  // namespace rivulet
