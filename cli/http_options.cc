#include "cli/http_options.h"

#include "cli/shell_quote.h"

namespace rivulet {

void AddHttpOptions(Command& command, HttpOptions* options, const std::string& what) {
  if (!HttpServer::IsBuilt()) return;
  command
      .Option(
          "--http", "HOST:PORT", &options->address,
          what + (options->address.empty() ? "; port 0 takes any free one" : fmt::format(" [{}]", options->address)))
      .Option("--http-token", "FILE", &options->token_file, "require the token in this file from every reader")
      .Option("--http-tls", "DIR", &options->tls,
              "serve over TLS with the certificate of this folder of `rivulet ca kit coordinator/HOST`; required "
              "unless HOST is this machine. Without --http-token, operators' certificates give access");
}

std::string ShellArguments(const HttpOptions& options) {
  std::string text;
  if (!options.address.empty()) text += " --http " + ShellQuote(options.address);
  if (!options.token_file.empty()) text += " --http-token " + ShellQuote(options.token_file);
  if (!options.tls.empty()) text += " --http-tls " + ShellQuote(options.tls);
  return text;
}

}  // namespace rivulet
