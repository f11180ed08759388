#include "tests/bench/bare_grpc.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

namespace rivulet::bench {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One slice for all messages of a size: no byte is copied to send it.
grpc::ByteBuffer Message(int64_t bytes) {
  static const grpc::Slice whole(std::string(static_cast<size_t>(kChunkBytes), 'x'));
  const grpc::Slice slice = whole.sub(0, static_cast<size_t>(bytes));
  return {&slice, 1};
}

// Reads what comes and answers once.
class Sink final : public grpc::ServerGenericBidiReactor {
 public:
  Sink() { StartRead(&in_); }
  void OnReadDone(bool ok) override {
    if (ok) {
      in_.Clear();
      StartRead(&in_);
    } else {
      out_ = Message(1);
      StartWriteAndFinish(&out_, {}, grpc::Status::OK);
    }
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer in_, out_;
};

// As many bytes as the call asks for in its metadata.
class Source final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Source(int64_t bytes) : left_(bytes) { OnWriteDone(true); }
  void OnWriteDone(bool ok) override {
    if (!ok || left_ == 0) return Finish(grpc::Status::OK);
    const int64_t bytes = std::min(left_, kChunkBytes);
    left_ -= bytes;
    out_ = Message(bytes);
    StartWrite(&out_);
  }
  void OnDone() override { delete this; }

 private:
  int64_t left_;
  grpc::ByteBuffer out_;
};

class Mirror final : public grpc::ServerGenericBidiReactor {
 public:
  Mirror() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartWriteAndFinish(&message_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
};

class Silence final : public grpc::ServerGenericBidiReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    if (context->method() == "/up") return new Sink;
    if (context->method() == "/echo") return new Mirror;
    if (context->method() == "/hold") return new Silence;
    const auto bytes = context->client_metadata().find("bytes");
    return new Source(std::atoll(std::string(bytes->second.data(), bytes->second.size()).c_str()));
  }
};

class Server final : public BareServer {
 public:
  Status Listen(const BareWire& wire) {
    auto credentials = grpc::InsecureServerCredentials();
    if (!wire.tls_folder.empty()) {
      grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      options.pem_root_certs = FileText(wire.tls_folder + "/authority.crt");
      options.pem_key_cert_pairs = {{FileText(wire.tls_folder + "/node.key"), FileText(wire.tls_folder + "/node.crt")}};
      credentials = grpc::SslServerCredentials(options);
    }
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) return Unavailable("a bare server cannot listen");
    return absl::OkStatus();
  }
  ~Server() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }
  int port() const override { return port_; }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

class Client final : public BareClient {
 public:
  Client(const BareWire& wire, int port) {
    auto credentials = grpc::InsecureChannelCredentials();
    if (!wire.tls_folder.empty()) {
      credentials =
          grpc::SslCredentials({FileText(wire.tls_folder + "/authority.crt"), FileText(wire.tls_folder + "/node.key"),
                                FileText(wire.tls_folder + "/node.crt")});
    }
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // each a connection of its own
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port), credentials, arguments));
  }
  ~Client() override {
    if (held_ == nullptr) return;
    held_context_.TryCancel();
    grpc::Status status;
    held_->Finish(&status, this);
    Done();
  }

  Status Upload(int64_t bytes) override {
    grpc::ClientContext context;
    auto call = Begin(context, "/up");
    for (int64_t left = bytes; left > 0; left -= std::min(left, kChunkBytes)) {
      call->Write(Message(std::min(left, kChunkBytes)), this);
      if (!Done()) break;
    }
    call->WritesDone(this);
    Done();
    return End(*call);
  }

  Status Download(int64_t bytes) override {
    grpc::ClientContext context;
    context.AddMetadata("bytes", std::to_string(bytes));
    auto call = Begin(context, "/down");
    grpc::ByteBuffer message;
    int64_t got = 0;
    for (call->Read(&message, this); Done(); call->Read(&message, this)) got += static_cast<int64_t>(message.Length());
    RIVULET_RETURN_IF_ERROR(StatusOf(*call));
    return got == bytes ? absl::OkStatus() : Internal("{} of {} bytes came", got, bytes);
  }

  Status Echo(int64_t bytes) override {
    grpc::ClientContext context;
    auto call = Begin(context, "/echo");
    call->WriteLast(Message(bytes), {}, this);
    Done();
    return End(*call);
  }

  Status Hold() override {
    held_ = Begin(held_context_, "/hold");
    return absl::OkStatus();
  }

 private:
  using Call = grpc::GenericClientAsyncReaderWriter;

  std::unique_ptr<Call> Begin(grpc::ClientContext& context, const std::string& method) {
    context.set_wait_for_ready(true);
    auto call = stub_->PrepareCall(&context, method, &queue_);
    call->StartCall(this);
    Done();
    return call;
  }
  bool Done() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  Status End(Call& call) {
    grpc::ByteBuffer reply;
    call.Read(&reply, this);
    Done();
    return StatusOf(call);
  }
  Status StatusOf(Call& call) {
    grpc::Status status;
    call.Finish(&status, this);
    Done();
    return status.ok() ? absl::OkStatus() : Unavailable("{}", status.error_message());
  }

  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext held_context_;
  std::unique_ptr<Call> held_;
};

}  // namespace

StatusOr<std::unique_ptr<BareServer>> BareServer::Start(const BareWire& wire) {
  auto server = std::make_unique<Server>();
  RIVULET_RETURN_IF_ERROR(server->Listen(wire));
  return server;
}

StatusOr<std::unique_ptr<BareClient>> BareClient::Connect(const BareWire& wire, int port) {
  auto client = std::make_unique<Client>(wire, port);
  RIVULET_RETURN_IF_ERROR(client->Echo(1));
  return client;
}

}  // namespace rivulet::bench
