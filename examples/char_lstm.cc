// A language model of letters: an LSTM learns a nursery rhyme, then goes on from its first words.
//
//     char_lstm    recites the rhyme; prints how many letters are right

#include <algorithm>
#include <iostream>
#include <string>

#include "ringrad/ringrad.h"
using namespace ringrad;

const std::string kText =
    "This is the farmer sowing his corn,\n"
    "That kept the cock that crowed in the morn,\n"
    "That waked the priest all shaven and shorn,\n"
    "That married the man all tattered and torn,\n"
    "That kissed the maiden all forlorn,\n"
    "That milked the cow with the crumpled horn,\n"
    "That tossed the dog,\n"
    "That worried the cat,\n"
    "That killed the rat,\n"
    "That ate the malt\n"
    "That lay in the house that Jack built.\n";

// A letter's token is its position in this list.
const std::string kLetters = [] {
  std::string letters = kText;
  std::ranges::sort(letters);
  letters.erase(std::ranges::unique(letters).begin(), letters.end());
  return letters;
}();

// Shapes: (T)
Tensor tokens_of(const std::string& text) {
  std::vector<std::int64_t> tokens;
  for (const char letter : text) tokens.push_back(static_cast<std::int64_t>(kLetters.find(letter)));
  return tensor(tokens);
}

struct CharLstm : nn::Module {
  // Scores of each next letter: tokens (T, B) -> (T, B, V). `state` is what the model remembers; it
  // is replaced by what it remembers after the last letter.
  Tensor scores(const Tensor& tokens, nn::RecurrentState& state) {
    nn::RecurrentResult result = lstm.run(table(tokens), state);
    state = result.state;
    return head(result.output);
  }
  const std::int64_t num_letters = std::ssize(kLetters);
  nn::Embedding& table = child("table", nn::Embedding(num_letters, 32));
  nn::LSTM& lstm = child("lstm", nn::LSTM(32, 96));
  nn::Linear& head = child("head", nn::Linear(96, num_letters));
};

// Goes on with the most likely letter, `count` times. The state carries all that was read.
std::string go_on(CharLstm& model, const std::string& prompt, std::int64_t count) {
  const NoGradGuard no_grad;
  nn::RecurrentState state;
  std::string said;
  Tensor read = unsqueeze(tokens_of(prompt), 1);
  for (std::int64_t i = 0; i < count; ++i) {
    read = argmax(slice(model.scores(read, state), 0, -1), 2);
    said += kLetters[read.item<std::size_t>()];
  }
  return said;
}

int main() {
  constexpr std::int64_t kSteps = 300, kLength = 40, kBatch = 16;
  CharLstm model;
  nn::Adam optimizer(model.parameters());
  const nn::Schedule schedule = nn::cosine(0.01, kSteps);
  const Tensor text = tokens_of(kText);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    // Windows of the text, one per column. The target of a letter is the one after it.
    const Tensor starts = randint(0, text.size(0) - kLength, {kBatch});
    const Tensor places = unsqueeze(arange(kLength), 1) + starts;
    const auto letters_at = [&](const Tensor& p) {
      return reshape(index_select(text, 0, flatten(p)), {kLength, kBatch});
    };
    const Tensor x = letters_at(places), y = letters_at(places + 1);
    nn::RecurrentState state;
    optimizer.set_learning_rate(schedule(step));
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(flatten(model.scores(x, state), 0, 1), flatten(y));
    loss.backward();
    nn::clip_grad_norm(optimizer.arenas(), 1);
    optimizer.step();
    if (step % 50 == 49) std::cout << "step " << step + 1 << ", loss " << loss.item() << std::endl;
  }
  const std::string prompt = kText.substr(0, 12), rest = kText.substr(12);
  const std::string said = go_on(model, prompt, std::ssize(rest));
  const auto first_wrong = std::ranges::mismatch(said, rest).in1;
  std::cout << prompt << said
            << "correct letters before the first wrong one: " << first_wrong - said.begin()
            << " of " << rest.size() << '\n';
}
