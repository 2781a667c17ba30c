// A GPT that learns to write like a text, byte by byte: training, a picture of the losses,
// checkpoints, and samples. Ranks form a mesh of three axes, so that one program shows data,
// pipeline and tensor parallel training, and any product of them.
//
//                     pipeline 0           pipeline 1           each rank holds its stage's part of
//     data 0      [tensor 0, tensor 1] [tensor 0, tensor 1]     each matrix, and sees its replica's
//     data 1      [tensor 0, tensor 1] [tensor 0, tensor 1]     part of each batch
//
//     gpt --text book.txt                                       two replicas, as threads
//     gpt --text book.txt --world-size 4 --pipeline 2 --tensor 2
//     ringrun -n 2 gpt --text book.txt --sharded                processes; ZeRO stage 1
//     gpt --text book.txt --checkpoint run                      continues where the last run ended
//
// Every split starts with the same weights and sees the same batches, so all have the same losses,
// up to the rounding of other orders of summation. tools/run --model gpt gives it a text.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

struct Settings {
  std::string text, checkpoint, curve = "gpt_loss.svg", prompt = "In the beginning";
  nn::GPTOptions model{.context = 128};
  int pipeline = 1, tensor = 1, micro_batches = 1;
  bool sharded = false;
  std::int64_t batch = 32, steps = 300, warmup = 0, every = 50;
  double learning_rate = 1e-3, weight_decay = 0.1;
  double temperature = 0.8;
  std::uint64_t seed = 0;
};

struct Result {
  double loss = 0, test = std::nan(""), tokens_per_second = 0;
  std::int64_t parameters = 0, steps = 0;
  std::string sample;
};

// --- The text ---

// The bytes of a file, nine tenths to learn from and one tenth to test on.
struct Text {
  Tensor learn, test;
};

Text read_text(const std::string& path, std::int64_t context) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  RINGRAD_CHECK(file && static_cast<std::int64_t>(bytes.size()) >= 20 * (context + 1), DataError,
                Where::current(), "gpt: --text must name a file of at least ", 20 * (context + 1),
                " bytes; got ", path, " of ", bytes.size());
  const DefaultDeviceGuard on_cpu{Device()};
  const Tensor all = empty({static_cast<std::int64_t>(bytes.size())}, {.dtype = DType::int64});
  std::transform(bytes.begin(), bytes.end(), all.data<std::int64_t>(),
                 [](char byte) { return static_cast<unsigned char>(byte); });
  const std::int64_t cut = all.numel() / 10 * 9;
  return {slice(all, 0, 0, cut), slice(all, 0, cut)};
}

struct Windows {
  Tensor input, target;  // (B, T): the target of a byte is the byte that follows it
};

// `count` windows at random places, which the generator's state alone decides: all ranks, and a run
// that continues, draw the same.
Windows draw_windows(const Tensor& text, std::int64_t count, std::int64_t context,
                     Generator generator) {
  const DefaultDeviceGuard on_cpu{Device()};
  std::vector<Tensor> inputs, targets;
  for (const std::int64_t at :
       randint(0, text.numel() - context, {count}, generator).to_vector<std::int64_t>()) {
    inputs.push_back(slice(text, 0, at, at + context));
    targets.push_back(slice(text, 0, at + 1, at + context + 1));
  }
  return {stack(inputs), stack(targets)};
}

Tensor loss_of(const Tensor& logits, const Tensor& target) {
  return cross_entropy(flatten(logits, 0, 1), flatten(target));
}

// --- The model, split ---

// This rank's part of the model: all layers, with its part of each matrix.
nn::Sequential make_model(const Settings& settings, Communicator& tensor) {
  manual_seed(settings.seed);
  nn::Sequential whole = nn::gpt(settings.model);
  if (tensor.world_size() == 1) return whole;
  const auto columns = [&](std::int64_t in, std::int64_t out) {
    return std::make_shared<ColumnParallelLinear>(in, out, tensor,
                                                  ColumnParallelOptions{.gather_output = false});
  };
  const auto rows = [&](std::int64_t in, std::int64_t out) {
    return std::make_shared<RowParallelLinear>(in, out, tensor,
                                               RowParallelOptions{.input_is_parallel = true});
  };
  nn::Sequential part = nn::gpt(settings.model, {columns, rows, tensor.world_size()});
  load_whole_state_dict(part, whole.state_dict());
  return part;
}

// The first layer of each stage: blocks are dealt evenly, and follow the embeddings.
std::vector<std::size_t> cut_evenly(int layers, int stages) {
  constexpr std::size_t kLayersBeforeBlocks = 3;
  std::vector<std::size_t> starts{0};
  for (int s = 1; s < stages; ++s)
    starts.push_back(kLayersBeforeBlocks + static_cast<std::size_t>(s * layers / stages));
  return starts;
}

// AdamW, its state on every replica or, with --sharded, divided among them. Norms and biases do not
// decay.
class ReplicatedOrSharded {
 public:
  ReplicatedOrSharded(nn::Module& own, Communicator& replicas, const Settings& settings) {
    const nn::AdamOptions options{.learning_rate = settings.learning_rate, .beta2 = 0.99};
    const auto groups = nn::decay_groups(own, settings.weight_decay);
    if (settings.sharded)
      sharded_ = std::make_unique<ShardedOptimizer>(
          own, replicas,
          [=](const auto& parameters) { return std::make_unique<nn::AdamW>(parameters, options); },
          groups);
    else
      replicated_ = std::make_unique<nn::AdamW>(groups, options);
  }

  void zero_grad() { sharded_ ? sharded_->zero_grad() : replicated_->zero_grad(); }
  void step(double learning_rate) {
    if (sharded_) {
      sharded_->set_learning_rate(learning_rate);
      sharded_->step();
    } else {
      replicated_->set_learning_rate(learning_rate);
      replicated_->step();
    }
  }
  void add_to(ShardedCheckpoint& checkpoint) {
    sharded_ ? checkpoint.add("optimizer", *sharded_) : checkpoint.add("optimizer", *replicated_);
  }

 private:
  std::unique_ptr<nn::AdamW> replicated_;
  std::unique_ptr<ShardedOptimizer> sharded_;
};

// The whole model on every rank: each stage's ranks broadcast its layers.
nn::Sequential gather_model(const Settings& settings, std::vector<nn::Sequential>& stages,
                            Communicator& line) {
  const NoGradGuard guard;
  const nn::StateDict own = whole_state_dict(stages[static_cast<std::size_t>(line.rank())]);
  nn::Sequential model = nn::gpt(settings.model);
  const nn::StateDict all = model.state_dict();
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const auto& [name, part] : stages[s].state_dict()) {
      const Tensor whole = all.at(name).detach();
      const int owner = static_cast<int>(s);
      if (owner == line.rank()) copy_(whole, own.at(name));
      line.broadcast(whole, owner);
    }
  return model;
}

// A token, drawn with the probability that the model gives it: the Gumbel-max trick.
// Paper: Maddison, Tarlow, Minka 2014, "A* Sampling", arXiv:1411.0030
std::int64_t draw(const Tensor& logits, double temperature, Generator& generator) {
  const Tensor noise = -log(-log(rand(logits.shape(), {}, generator)));
  return argmax(logits / temperature + noise).item<std::int64_t>();
}

// The prompt and the bytes that the model adds to it.
std::string write_sample(nn::Sequential& model, const Settings& settings) {
  Generator generator(settings.seed + 2);
  nn::GPTGenerator writer(model);
  std::string text = settings.prompt;
  std::vector<std::int64_t> next;
  for (const char byte : text) next.push_back(static_cast<unsigned char>(byte));
  while (static_cast<std::int64_t>(text.size()) < settings.model.context) {
    const Tensor logits = writer.next(unsqueeze(tensor(next), 0));
    next = {draw(logits, settings.temperature, generator)};
    text += static_cast<char>(next[0]);
  }
  return text;
}

// --- Training ---

// The mean loss over the replicas' parts of some windows of the text's test part.
double test_loss(Pipeline& pipeline, const Text& text, const Settings& settings,
                 Communicator& replicas, Communicator& line) {
  const Windows all = draw_windows(text.test, 2 * settings.batch, settings.model.context,
                                   Generator(settings.seed + 1));
  const std::int64_t share = all.input.size(0) / replicas.world_size(),
                     begin = share * replicas.rank();
  pipeline.eval();
  const Tensor logits =
      pipeline.forward(to(slice(all.input, 0, begin, begin + share), default_device()));
  pipeline.train();
  const Tensor loss = zeros({1});
  if (logits.defined()) {  // on the last stage
    const NoGradGuard guard;
    const Tensor target = to(slice(all.target, 0, begin, begin + share), default_device());
    copy_(loss, reshape(loss_of(logits, target), {1}));
  }
  line.broadcast(loss, line.world_size() - 1);
  replicas.all_reduce(loss, ReduceOp::mean);
  return loss.item<double>();
}

Result train(Communicator& comm, const Settings& settings, const Text& text) {
  const Mesh mesh(comm, {{"data", comm.world_size() / (settings.pipeline * settings.tensor)},
                         {"pipeline", settings.pipeline},
                         {"tensor", settings.tensor}});
  Communicator &replicas = mesh.axis("data"), &line = mesh.axis("pipeline");
  nn::Sequential whole = make_model(settings, mesh.axis("tensor"));
  Result result;
  auto stages =
      nn::Sequential::split(std::move(whole), cut_evenly(settings.model.layers, settings.pipeline));
  nn::Sequential& own = stages[static_cast<std::size_t>(line.rank())];
  // ZeRO averages gradients itself when it steps.
  Pipeline pipeline(stages, line,
                    one_forward_one_backward(settings.pipeline, settings.micro_batches), loss_of,
                    {.replicas = settings.sharded ? nullptr : &replicas});
  ReplicatedOrSharded optimizer(own, replicas, settings);

  std::int64_t step = 0;
  ShardedCheckpoint checkpoint(comm);
  const bool saves = !settings.checkpoint.empty(), shows = comm.rank() == 0;
  if (saves) {
    checkpoint.add_stages("model", stages, line);
    optimizer.add_to(checkpoint);
    checkpoint.add("step", step);
    if (checkpoint.load(settings.checkpoint) && shows)
      std::cerr << "gpt: continues after step " << step << '\n';
  }

  const auto schedule = nn::warm_up(
      settings.warmup, nn::cosine(settings.learning_rate, settings.steps - settings.warmup,
                                  settings.learning_rate / 10));
  nn::LossCurve curve("Bytes of " + std::filesystem::path(settings.text).filename().string());
  std::unique_ptr<nn::Progress> progress;
  if (shows && step < settings.steps)
    progress = std::make_unique<nn::Progress>(1, settings.steps - step);
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t first = step, share = settings.batch / replicas.world_size(),
                     begin = share * replicas.rank();
  while (step < settings.steps) {
    Generator generator(settings.seed);
    generator.set_offset(static_cast<std::uint64_t>(step * settings.batch));
    const Windows batch =
        draw_windows(text.learn, settings.batch, settings.model.context, generator);
    optimizer.zero_grad();
    const Tensor loss =
        pipeline.train_step(to(slice(batch.input, 0, begin, begin + share), default_device()),
                            to(slice(batch.target, 0, begin, begin + share), default_device()));
    optimizer.step(schedule(step++));
    replicas.all_reduce(loss, ReduceOp::mean);
    result.loss = loss.item<double>();
    const bool tests = step % settings.every == 0 || step == settings.steps;
    if (tests) result.test = test_loss(pipeline, text, settings, replicas, line);
    if (tests && saves) checkpoint.save(settings.checkpoint);
    if (!shows) continue;
    curve.add("learn", step, result.loss);
    if (tests) curve.add("test", step, result.test);
    const std::int64_t tokens = settings.batch * settings.model.context;
    if (std::isnan(result.test))
      progress->step(tokens, {{"loss", result.loss}});
    else
      progress->step(tokens, {{"loss", result.loss}, {"test", result.test}});
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  result.tokens_per_second =
      static_cast<double>((step - first) * settings.batch * settings.model.context) / time.count();
  result.steps = step;
  if (shows && step > first) curve.write(settings.curve);
  nn::Sequential model = gather_model(settings, stages, line);
  result.parameters = model.num_parameters();
  if (shows) result.sample = write_sample(model, settings);
  return result;
}

void check(const Settings& settings, int world_size) {
  const int split = settings.pipeline * settings.tensor;
  RINGRAD_CHECK(world_size % split == 0, ValueError, Where::current(),
                "gpt: --pipeline times --tensor must divide the ranks; got ", settings.pipeline,
                ", ", settings.tensor, " and ", world_size);
  const int replicas = world_size / split;
  RINGRAD_CHECK(settings.batch % (replicas * settings.micro_batches) == 0, ValueError,
                Where::current(),
                "gpt: --batch must be a multiple of replicas times --micro-batches; got ",
                settings.batch, ", ", replicas, " and ", settings.micro_batches);
  RINGRAD_CHECK(settings.pipeline <= settings.model.layers, ValueError, Where::current(),
                "gpt: --pipeline must not exceed --layers; got ", settings.pipeline, " and ",
                settings.model.layers);
  RINGRAD_CHECK(static_cast<std::int64_t>(settings.prompt.size()) > 0 &&
                    static_cast<std::int64_t>(settings.prompt.size()) <= settings.model.context,
                ValueError, Where::current(), "gpt: --prompt must have 1 to ",
                settings.model.context, " bytes, the context; got ", settings.prompt.size());
  RINGRAD_CHECK(settings.warmup < settings.steps, ValueError, Where::current(),
                "gpt: --warmup must be less than --steps; got ", settings.warmup, " and ",
                settings.steps);
}

Settings parse(Job& job, int argc, char** argv) {
  Settings settings;
  CLI::App& app = job.options();
  nn::GPTOptions& model = settings.model;
  app.add_option("--text", settings.text, "file to learn from")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--layers", model.layers)->check(option::whole(1, 1000));
  app.add_option("--heads", model.heads)->check(option::whole(1, 1000));
  app.add_option("--width", model.width, "a multiple of --heads")->check(option::whole(1, 1 << 16));
  app.add_option("--context", model.context, "bytes that the model sees")
      ->check(option::whole(1, 1 << 16));
  app.add_option("--dropout", model.dropout)->check(option::number(0, 0.99));
  app.add_option("--pipeline", settings.pipeline, "stages")->check(option::whole(1, kMaxRanks));
  app.add_option("--tensor", settings.tensor, "ranks that split each matrix")
      ->check(option::whole(1, kMaxRanks));
  app.add_option("--micro-batches", settings.micro_batches, "of each replica's part of a batch")
      ->check(option::micro_batches());
  app.add_flag("--sharded", settings.sharded, "deal the optimizer's state to the replicas");
  app.add_option("--batch", settings.batch, "sequences per step, of all replicas together")
      ->check(option::batch());
  app.add_option("--steps", settings.steps)->check(option::steps());
  app.add_option("--warmup", settings.warmup, "steps in which the learning rate grows")
      ->check(option::whole(0, 1 << 20))
      ->default_str("a tenth of --steps");
  app.add_option("--learning-rate", settings.learning_rate, "peak")
      ->check(option::number(1e-12, 1e3));
  app.add_option("--weight-decay", settings.weight_decay)->check(option::number(0, 1e3));
  app.add_option("--every", settings.every, "steps between tests and checkpoints")
      ->check(option::whole(1, 1 << 20));
  app.add_option("--checkpoint", settings.checkpoint, "folder to save in, and to continue from");
  app.add_option("--curve", settings.curve, "picture of the losses");
  app.add_option("--prompt", settings.prompt, "beginning of the sample");
  app.add_option("--temperature", settings.temperature, "of the sample; less is more predictable")
      ->check(option::number(1e-3, 1e3));
  app.add_option("--seed", settings.seed, "of initial values and batches")->check(option::seed());
  job.parse(argc, argv);
  if (app.count("--warmup") == 0) settings.warmup = settings.steps / 10;
  check(settings, job.world_size());
  return settings;
}

int main(int argc, char** argv) {
  try {
    Job job("Trains a small GPT on a text, data, pipeline and tensor parallel.", 2);
    const Settings settings = parse(job, argc, argv);
    const Text text = read_text(settings.text, settings.model.context);
    std::optional<Result> first;  // rank 0's, where it is
    const int exit_code = job.run([&](Communicator& comm) {
      const Result own = train(comm, settings, text);
      if (comm.rank() == 0) first = own;
    });
    if (!first) return exit_code;
    std::cerr << first->sample << '\n';
    std::cout << nlohmann::ordered_json{{"loss", first->loss},
                                        {"test_loss", first->test},
                                        {"steps", first->steps},
                                        {"parameters", first->parameters},
                                        {"tokens_per_second", std::round(first->tokens_per_second)},
                                        {"world_size", job.world_size()},
                                        {"pipeline", settings.pipeline},
                                        {"tensor", settings.tensor},
                                        {"sharded", settings.sharded}}
                     .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << std::endl;
    return exit_code;
  } catch (const std::exception& error) {
    std::cerr << "gpt: " << error.what() << '\n';
    return 1;
  }
}
