// How does somebody come in? With a token of the API, typed or pasted once per tab.

import { token } from "./api.js";
import { el, fault } from "./dom.js";
import { recognise } from "./session.js";

/** The form; `entered` is called when the token was found good. */
export function signInView(main, { signal, entered, why }) {
  const input = el("input", {
    id: "token",
    type: "password",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "token-help",
  });
  const wrong = el("div");
  const button = el("button", { type: "submit", class: "primary" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    token.set(input.value.trim());
    button.disabled = true;
    try {
      await recognise(signal);
      entered();
    } catch (error) {
      token.forget();
      wrong.replaceChildren(fault(error));
      button.disabled = false;
      input.select();
    }
  };
  main.replaceChildren(
    el(
      "form",
      { class: "card sign-in", onsubmit: submit },
      el("h1", { tabindex: "-1" }, "Sign in"),
      why ? el("div", { class: "fault", role: "alert" }, el("p", {}, why)) : null,
      el("label", { for: "token" }, "Token"),
      input,
      el(
        "p",
        { id: "token-help", class: "quiet" },
        "The token that you call the API with: on Kubernetes from ",
        el("code", {}, "kubectl create token NAME --audience samjobs"),
        ", elsewhere from ",
        el("code", {}, "samjobs token"),
        ". It is kept until this tab is closed.",
      ),
      wrong,
      button,
    ),
  );
  input.focus();
}
