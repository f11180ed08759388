// Admission of readers to an HTTP server: by the requested host name, a token, a session or a certificate.
#pragma once

#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "certificates/role.h"
#include "certificates/watched_identity.h"
#include "http/target.h"
#include "rpc/credentials.h"

namespace rivulet {

// The parts of a request that matter for admission.
struct HttpCall {
  std::string_view method;
  const HttpTarget& target;
  std::function<std::string(const char* name)> header;  // its value; "": none
  SSL* ssl = nullptr;                                   // null: plaintext
  bool of_program = false;                              // below a prefix of calls: any method
};

// An answer instead of a page.
struct HttpRefusal {
  int status = 400;
  std::string title, sentence;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Rules of admission to one server. Thread-safe.
class Admission {
 public:
  // `token_file` "": no token; `identity` null: plaintext. FAILED_PRECONDITION: the token can be guessed. Other errors
  // are those of the file.
  static StatusOr<std::unique_ptr<Admission>> Create(NetworkAddress address, const std::string& token_file,
                                                     std::shared_ptr<WatchedIdentity> identity,
                                                     Role readers = Role::kOperator);

  // Null: it is admitted. A token in the address is answered by a redirect to the address without it, with a session's
  // cookie.
  std::optional<HttpRefusal> Check(const HttpCall& call) const;

 private:
  Admission(NetworkAddress address, std::string token, std::string session, std::shared_ptr<WatchedIdentity> identity,
            Role readers)
      : address_(std::move(address)),
        token_(std::move(token)),
        session_(std::move(session)),
        identity_(std::move(identity)),
        readers_(readers) {}
  bool IsOurName(const std::string& host) const;
  std::string FaultOfReader(SSL* ssl) const;

  const NetworkAddress address_;
  const std::string token_, session_;
  const std::shared_ptr<WatchedIdentity> identity_;
  const Role readers_;
};

}  // namespace rivulet
