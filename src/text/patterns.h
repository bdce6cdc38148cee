/* patterns.h - the regular expressions by which files say how words are split, each with what
 * pattern.c needs to match it: X(name, WAY, contraction, lead, word, digits, other, tail, regex).
 *
 * name         as GGUF calls the splitter; "" where it has no name of its own
 * WAY          WORDS: alternatives in the order of the columns; RUN: up to `digits` characters of
 *              `word`, 0: as many as there are; TWO_CASES: words as capitals, then small letters
 * contraction  0 none, 1 's 't 're 've 'm 'll 'd first, 2 in any case, 3 in any case behind words
 * lead         a character that a word may begin with: a space (0), or any but newlines and these
 * word         categories that make a word
 * digits       0 no alternative, 9 ` ?\p{N}+`, else at most so many numbers
 * other        categories of ` ?[..]+`, without white space
 * tail         what `other` takes along; "" also means that newlines end no white space */
X("gpt-2", WORDS, 1, 0, IS_LETTER, 9, ~(IS_LETTER | IS_NUMBER), "",
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+")
X("llama-bpe", WORDS, 2, IS_LETTER | IS_NUMBER, IS_LETTER, 3, ~(IS_LETTER | IS_NUMBER), "\r\n",
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L"
  "}\\p{N}]+[\\r\\n]*|"
  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
X("qwen2", WORDS, 2, IS_LETTER | IS_NUMBER, IS_LETTER, 1, ~(IS_LETTER | IS_NUMBER), "\r\n",
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
  "[\\r\\n]*|"
  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
X("qwen35", WORDS, 2, IS_LETTER | IS_NUMBER, IS_LETTER | IS_MARK, 1, ~(IS_LETTER | IS_NUMBER | IS_MARK), "\r\n",
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L"
  "}\\p{M}\\p{N}]+[\\r\\n]*|"
  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
X("gpt-4o", TWO_CASES, 3, IS_LETTER | IS_NUMBER, IS_LETTER, 3, ~(IS_LETTER | IS_NUMBER), "\r\n/",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
  "]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
  "]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
  "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
X("tekken", TWO_CASES, 0, IS_LETTER | IS_NUMBER, IS_LETTER, 1, ~(IS_LETTER | IS_NUMBER), "\r\n/",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
  "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
X("", RUN, 0, 0, IS_NUMBER, 3, 0, "", "\\p{N}{1,3}")
X("", RUN, 0, 0, IS_NUMBER, 1, 0, "", "\\p{N}")
X("", RUN, 0, 0, IS_NUMBER, 0, 0, "", "\\p{N}+")
X("", RUN, 0, 0, IS_ND, 1, 0, "", "\\d")
X("", RUN, 0, 0, IS_ND, 3, 0, "", "\\d{1,3}")
X("", RUN, 0, 0, 0, 0, 0, "", "\\s+")
X("", RUN, 0, 0, 0, 1, 0, "", "\\s")
