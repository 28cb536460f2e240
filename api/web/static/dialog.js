// How is a person asked before something is lost? By a native dialog, in which the safe answer has the focus.

import { el } from "./dom.js";

/** Ask; true when the person really wants it. */
export function confirmed(question, consequence, action) {
  return new Promise((resolve) => {
    const answer = (yes) => {
      dialog.close();
      dialog.remove();
      resolve(yes);
    };
    const keep = el("button", { type: "button", autofocus: true, onclick: () => answer(false) }, "Leave it as it is");
    const dialog = el(
      "dialog",
      {
        "aria-labelledby": "question",
        "aria-describedby": "consequence",
        oncancel: (event) => {
          event.preventDefault();
          answer(false);
        },
      },
      el("h2", { id: "question" }, question),
      el("p", { id: "consequence" }, consequence),
      el(
        "div",
        { class: "actions" },
        keep,
        el("button", { type: "button", class: "danger", onclick: () => answer(true) }, action),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button that does something at the server once per press, and says what came of it. */
export function actionButton(text, work, failed, kind = "") {
  const button = el(
    "button",
    {
      type: "button",
      class: kind,
      onclick: async () => {
        button.disabled = true;
        try {
          await work();
        } catch (error) {
          failed(error);
        } finally {
          button.disabled = false;
        }
      },
    },
    text,
  );
  return button;
}
